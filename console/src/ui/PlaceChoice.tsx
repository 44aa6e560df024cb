/** Chooses the organization, an account, a symbol of it or an API key; the choice is in the address. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { setQuery } from "../shell/router";
import { openAccounts } from "../shell/session";
import { keys } from "./names";
import { type Place, type PlaceScope, SCOPES, SCOPE_WORDS } from "./places";

function AccountField({ place }: { place: Place }) {
  return (
    <label class="labelled">
      <span>Account</span>
      <select
        class="field"
        value={place.account_id ?? ""}
        onChange={(event) => setQuery({ account: event.currentTarget.value })}
      >
        {!place.account_id && <option value="">Choose an account</option>}
        {openAccounts.value.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

function SymbolField({ symbol }: { symbol: string }) {
  const typed = useSignal(symbol);
  useEffect(() => {
    typed.value = symbol;
  }, [symbol]);
  const commit = () => setQuery({ symbol: typed.value.trim().toUpperCase() });
  return (
    <label class="labelled">
      <span>Symbol</span>
      <input
        class="field symbol"
        value={typed.value}
        placeholder="AAPL"
        autocomplete="off"
        spellcheck={false}
        maxLength={32}
        pattern="[A-Za-z0-9.\-\/:_]{1,32}"
        onInput={(event) => {
          typed.value = event.currentTarget.value.toUpperCase();
        }}
        onChange={commit}
        onKeyDown={(event) => {
          if (event.key === "Enter") commit();
        }}
      />
    </label>
  );
}

function KeyField({ id }: { id: string }) {
  const choose = (key: string) => setQuery({ key });
  if (keys.value.length > 0) {
    const isKnown = keys.value.some((each) => each.id === id);
    return (
      <label class="labelled">
        <span>API key</span>
        <select class="field" value={id} onChange={(event) => choose(event.currentTarget.value)}>
          {!isKnown && <option value={id}>{id || "Choose a key"}</option>}
          {keys.value.map((each) => (
            <option key={each.id} value={each.id}>
              {each.name} ({each.environment})
            </option>
          ))}
        </select>
      </label>
    );
  }
  return (
    <label class="labelled">
      <span>Id of the API key</span>
      <input class="field" value={id} autocomplete="off" onChange={(event) => choose(event.currentTarget.value.trim())} />
    </label>
  );
}

export function PlaceChoice({ place }: { place: Place }) {
  const choose = (scope: PlaceScope) => setQuery({ scope: scope.toLowerCase() });
  const ofAccount = place.scope === "ACCOUNT" || place.scope === "SYMBOL";
  return (
    <div class="place">
      <div class="labelled" role="group" aria-label="Scope">
        <span aria-hidden="true">Scope</span>
        <div class="choice">
          {SCOPES.map((scope) => (
            <button
              key={scope}
              type="button"
              class="button"
              aria-pressed={scope === place.scope}
              onClick={() => choose(scope)}
            >
              {SCOPE_WORDS[scope]}
            </button>
          ))}
        </div>
      </div>
      {ofAccount && <AccountField place={place} />}
      {place.scope === "SYMBOL" && <SymbolField symbol={place.symbol ?? ""} />}
      {place.scope === "KEY" && <KeyField id={place.api_key_id ?? ""} />}
    </div>
  );
}
