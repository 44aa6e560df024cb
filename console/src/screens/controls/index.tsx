/** Controls: what is in force where, and what a change would do before it is saved. */
import { useMemo } from "preact/hooks";
import { useReading } from "../../api/reading";
import { changesControls, useEvents } from "../../live/use";
import { query, setQuery } from "../../shell/router";
import { account, accountName, me, openAccounts } from "../../shell/session";
import { Loading, Problem } from "../../ui/Common";
import { keyName } from "../../ui/names";
import { isComplete, type Place, placeIn, placeKey } from "../../ui/places";
import { PlaceChoice } from "../../ui/PlaceChoice";
import { useScreen } from "../../ui/screen";
import { Editor } from "./Editor";
import { Heartbeats } from "./Heartbeats";
import { InForce } from "./InForce";
import { type ControlKind, readEffective, readKinds } from "./source";
import { TryOne } from "./TryOne";
import "./controls.css";

function Breadcrumb({ place }: { place: Place }) {
  const steps = [
    "Platform",
    me.value?.organization?.name ?? "Organization",
    place.account_id && accountName(place.account_id),
    place.symbol,
    place.api_key_id && `key ${keyName(place.api_key_id)}`,
  ];
  return <p class="dim">{steps.filter(Boolean).join(" ▸ ")} · all of them apply, so the strictest decides.</p>;
}

function AddRule({ place, kinds }: { place: Place; kinds: readonly ControlKind[] }) {
  const fitting = kinds.filter((kind) => kind.settable && kind.scopes.includes(place.scope));
  return (
    <label class="add-rule">
      <span class="hidden-text">Open or add a rule here</span>
      <select
        class="field"
        value=""
        onChange={(event) => {
          if (event.currentTarget.value) setQuery({ rule: event.currentTarget.value });
        }}
      >
        <option value="">Open or add a rule here…</option>
        {fitting.map((kind) => (
          <option key={kind.code} value={kind.code}>
            {kind.code}: {kind.summary.slice(0, 80)}
          </option>
        ))}
      </select>
    </label>
  );
}

function defaultAccount(): string | undefined {
  const [first, second] = openAccounts.value;
  return account.value?.id ?? (second ? undefined : first?.id);
}

function Rules({ place }: { place: Place }) {
  const isWhole = isComplete(place);
  const of = account.value?.id;
  const reading = useReading(`${placeKey(place)} ${of}`, (signal) => readEffective(place, of, signal));
  const kinds = useReading("kinds", readKinds);
  useEvents(changesControls, () => !reading.isLoading && reading.again());
  const byCode = useMemo(() => new Map((kinds.data ?? []).map((kind) => [kind.code, kind])), [kinds.data]);
  const code = query.value.get("rule") ?? "";
  const kind = byCode.get(code);
  const fits = kind?.settable && kind.scopes.includes(place.scope);
  const failure = reading.failure ?? kinds.failure;
  const again = () => {
    reading.again();
    if (kinds.failure) kinds.again();
  };
  useScreen("controls", !!reading.data && !!kinds.data && !!me.value);
  return (
    <>
      {failure && <Problem failure={failure} again={again} />}
      {(!reading.data || !kinds.data) && !failure && <Loading what="the rules in force" />}
      {isWhole && kind && fits && (
        <Editor key={`${placeKey(place)} ${code}`} place={place} kind={kind} onSaved={reading.again} />
      )}
      {code && kinds.data && !fits && (
        <p class="note">
          {kind ? `${code} cannot be set at this scope. Choose another scope above.` : `There is no rule ${code}.`}
        </p>
      )}
      {reading.data && kinds.data && (
        <section class="card" aria-labelledby="in-force">
          <header>
            <h2 id="in-force">In force here</h2>
            {reading.data.isWatchedOnly && (
              <span class="pill unknown">the organization only records refusals on this paper account</span>
            )}
            <span class="grow" />
            {isWhole && <AddRule place={place} kinds={kinds.data} />}
          </header>
          <InForce effective={reading.data} kinds={byCode} open={`${placeKey(place)} ${code}`} />
        </section>
      )}
    </>
  );
}

export default function Controls() {
  const place = placeIn(query.value, defaultAccount());
  return (
    <section class="screen controls" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Controls</h1>
          <Breadcrumb place={place} />
        </div>
      </div>
      {me.value ? (
        <>
          <PlaceChoice place={place} />
          <Rules place={place} />
          <TryOne />
          <Heartbeats />
        </>
      ) : (
        <Loading what="who is signed in" />
      )}
    </section>
  );
}
