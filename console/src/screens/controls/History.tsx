/** Every change of one rule, the newest first; each can be loaded into the form again. */
import { useSignal } from "@preact/signals";
import { type Failure, failureOf } from "../../api/api";
import { useReading } from "../../api/reading";
import { Loading, Problem } from "../../ui/Common";
import { who } from "../../ui/names";
import { type Place, placeKey } from "../../ui/places";
import { Time } from "../../ui/Time";
import { Differences } from "./Differences";
import { readChanges, type RuleChange } from "./source";
import { differences, type Terms } from "./terms";

interface Props {
  place: Place;
  code: string;
  /** Read again when it is another. */
  version: number;
  onRestore: (terms: Terms, version: number) => void;
}

function Entry({ change, onRestore }: { change: RuleChange; onRestore: Props["onRestore"] }) {
  const after = change.after?.in_force;
  return (
    <li class="change" data-id={`${change.code} ${change.version}`}>
      <div>
        <b>Version {change.version}</b>{" "}
        {!change.after && <span class="pill bad">removed</span>}
        {!change.before && <span class="pill good">{change.version === 1 ? "first set" : "set again"}</span>}{" "}
        <span class="dim">
          {who(change.principal_type, change.principal_id)} · <Time at={change.changed_at} day />
        </span>
        <p>“{change.reason ?? "no reason was given"}”</p>
      </div>
      <Differences of={differences(change.before?.in_force, after)} names={["Before", "After"]} />
      {after && (
        <button type="button" class="button small" onClick={() => onRestore(after, change.version)}>
          Restore<span class="hidden-text"> version {change.version}</span>
        </button>
      )}
    </li>
  );
}

export function History({ place, code, version, onRestore }: Props) {
  const reading = useReading(`${placeKey(place)} ${code} ${version}`, (signal) =>
    readChanges(place, code, undefined, signal),
  );
  const older = useSignal<{ of: unknown; rows: RuleChange[]; next: string | null | undefined } | undefined>(undefined);
  const failure = useSignal<Failure | undefined>(undefined);
  const more = older.value?.of === reading.data ? older.value : undefined;
  const next = more ? more.next : reading.data?.next_cursor;
  const readMore = async () => {
    failure.value = undefined;
    try {
      const page = await readChanges(place, code, next ?? undefined);
      older.value = { of: reading.data, rows: [...(more?.rows ?? []), ...page.data], next: page.next_cursor };
    } catch (error) {
      failure.value = failureOf(error);
    }
  };
  const rows = [...(reading.data?.data ?? []), ...(more?.rows ?? [])];
  return (
    <section class="history" aria-label={`History of ${code}`}>
      <h3>History</h3>
      {reading.failure && <Problem failure={reading.failure} again={reading.again} />}
      {!reading.data && !reading.failure && <Loading what="the history" />}
      {reading.data && rows.length === 0 && <p class="dim">This rule was never set here.</p>}
      <ol>
        {rows.map((change) => (
          <Entry key={change.version} change={change} onRestore={onRestore} />
        ))}
      </ol>
      {failure.value && <Problem failure={failure.value} />}
      {next && (
        <button type="button" class="button small" onClick={() => void readMore()}>
          Older changes
        </button>
      )}
    </section>
  );
}
