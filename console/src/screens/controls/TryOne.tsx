/** A dry run: what the rules in force say to one order. Nothing is recorded or sent. */
import { limit, market } from "@openbell/client";
import { useSignal } from "@preact/signals";
import type { Schemas } from "../../api/api";
import { account, openAccounts } from "../../shell/session";
import { useChange } from "../../ui/Change";
import { Problem } from "../../ui/Common";
import { SCOPE_WORDS } from "../../ui/places";
import { text } from "./schema";
import { evaluate } from "./source";

function Lines({ receipt }: { receipt: Schemas["Receipt"] }) {
  const shown = receipt.rules.filter(({ verdict }) => verdict !== "PASSED");
  if (!shown.length) return <p class="dim">{receipt.rules.length} rules were evaluated; each lets it pass.</p>;
  return (
    <ul class="verdicts">
      {shown.map((rule) => (
        <li key={`${rule.code} ${rule.scope}`}>
          <b>{rule.code}</b> ({SCOPE_WORDS[rule.scope]?.toLowerCase()}): limit {text(rule.limit)}, observed{" "}
          {rule.missing ? `not known (${rule.missing})` : text(rule.observed)}
          {rule.would_pass && <>. What would pass: {rule.would_pass}</>}
        </li>
      ))}
    </ul>
  );
}

const VERDICTS: Record<string, string> = {
  PASSED: "It would be accepted",
  REFUSED: "It would be refused",
  WOULD_REFUSE: "It would be accepted; a rule in shadow mode records that it would refuse",
};

export function TryOne() {
  const of = useSignal({ symbol: "AAPL", side: "BUY", quantity: "100", limit: "" });
  const chosen = useSignal("");
  const result = useSignal<Schemas["Evaluation"] | undefined>(undefined);
  const change = useChange();
  const set = (changes: Partial<typeof of.value>) => {
    of.value = { ...of.value, ...changes };
    result.value = undefined;
  };
  const id = account.value?.id ?? (chosen.value || openAccounts.value[0]?.id || "");
  const run = async (event: Event) => {
    event.preventDefault();
    await change.run(async () => {
      const { symbol, side, quantity, limit: at } = of.value;
      const spec = at.trim() ? limit(quantity.trim(), at.trim()) : market(quantity.trim());
      const payload = { symbol: symbol.trim(), order_side: side, spec } as Schemas["CreatePayload"];
      result.value = await evaluate(id, payload);
      return "";
    });
  };
  if (!id) return null;
  return (
    <section class="card" aria-labelledby="try">
      <header>
        <h2 id="try">Try an order</h2>
        <span class="dim">A dry run against the rules in force now. Nothing is recorded or sent.</span>
      </header>
      <form class="pad try" onSubmit={(event) => void run(event)}>
        {!account.value && (
          <label class="labelled">
            <span>Account</span>
            <select
              class="field"
              value={id}
              onChange={(event) => {
                chosen.value = event.currentTarget.value;
                result.value = undefined;
              }}
            >
              {openAccounts.value.map((each) => (
                <option key={each.id} value={each.id}>
                  {each.name}
                </option>
              ))}
            </select>
          </label>
        )}
        <label class="labelled">
          <span>Side</span>
          <select class="field" value={of.value.side} onChange={(event) => set({ side: event.currentTarget.value })}>
            <option value="BUY">Buy</option>
            <option value="SELL">Sell</option>
            <option value="SELL_SHORT">Sell short</option>
          </select>
        </label>
        {(
          [
            ["quantity", "Quantity"],
            ["symbol", "Symbol"],
            ["limit", "Limit price (optional)"],
          ] as const
        ).map(([name, words]) => (
          <label key={name} class="labelled">
            <span>{words}</span>
            <input
              class={`field${name === "symbol" ? " symbol" : ""}`}
              required={name !== "limit"}
              inputMode={name === "symbol" ? undefined : "decimal"}
              autocomplete="off"
              value={of.value[name]}
              onInput={(event) => set({ [name]: event.currentTarget.value })}
            />
          </label>
        ))}
        <button type="submit" class="button" disabled={change.isBusy}>
          {change.isBusy ? "Trying…" : "Try it"}
        </button>
      </form>
      {change.failure && <Problem failure={change.failure} />}
      {result.value && (
        <div class="pad" role="status" data-verdict={result.value.verdict}>
          <p>
            <b>{VERDICTS[result.value.verdict] ?? result.value.verdict}.</b>
            {result.value.receipt.watched_only && " The organization only records refusals on this paper account."}
          </p>
          <Lines receipt={result.value.receipt} />
        </div>
      )}
    </section>
  );
}
