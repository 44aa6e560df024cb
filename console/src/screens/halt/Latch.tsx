/** The switch of a place: three positions, a reason, one button. Stopping is one step, resuming takes the name. */
import { useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { capital, count, plain } from "../../text/words";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Problem } from "../../ui/Common";
import { editOperation, placeName, placeTitle, who } from "../../ui/names";
import { type Place, placeKey } from "../../ui/places";
import { Ago } from "../../ui/Time";
import type { Status, SwitchChange } from "./commands";
import { type HaltInForce, setSwitch, type Switch } from "./source";

export const STATUS_WORDS: Record<Status, string> = {
  ACTIVE: "Trading",
  REDUCE_ONLY: "Reduce only",
  HALTED: "Halted",
};
const MEANINGS: Record<Status, string> = {
  ACTIVE: "every command that its rules let pass",
  REDUCE_ONLY: "only orders that reduce a position, and cancels",
  HALTED: "only cancels, and replaces that reduce risk",
};
const POSITIONS: readonly Status[] = ["ACTIVE", "REDUCE_ONLY", "HALTED"];
const rank = (status: Status): number => POSITIONS.indexOf(status);
const REASONS = ["Precaution", "Runaway strategy", "Wrong order", "Broker trouble"];

interface Props {
  place: Place;
  current: Switch;
  /** False if the switch could not be read; it can be set all the same. */
  isKnown: boolean;
  /** The strictest halt of a wider scope, if one is in force. */
  wider: HaltInForce | undefined;
  working: string | undefined;
  onChanged: (changed: Switch) => void;
  onDraft: (change: SwitchChange) => void;
}

interface Draft extends SwitchChange {
  isOwn: boolean;
  name: string;
}

function draftFor({ status }: Switch): Draft {
  const wanted = status === "ACTIVE" ? "HALTED" : status === "HALTED" ? "ACTIVE" : "HALTED";
  const isStop = wanted === "HALTED";
  return { status: wanted, reason: isStop ? (REASONS[0] ?? "") : "", cancel_working: isStop, isOwn: false, name: "" };
}

interface PositionsProps {
  /** Undefined if it is not known. */
  current: Status | undefined;
  draft: Draft;
  set: (to: Status) => void;
}

function Positions({ current, draft, set }: PositionsProps) {
  return (
    <fieldset class="latch-slot" data-at={current}>
      <legend class="hidden-text">Position of the switch</legend>
      {POSITIONS.map((each) => (
        <label key={each} class={`latch-position${each === current ? " is-now" : ""}`}>
          <input
            type="radio"
            name="position"
            value={each}
            checked={draft.status === each}
            onChange={() => set(each)}
          />
          <span class="latch-knob" aria-hidden="true">
            <svg viewBox="0 0 16 16">
              {each === "ACTIVE" && <path d="m5.5 3.5 7 4.5-7 4.5Z" />}
              {each === "REDUCE_ONLY" && <path d="M8 3v9.5M4.2 8.8 8 12.6l3.8-3.8" class="stroke" />}
              {each === "HALTED" && <path d="M4 4h8v8H4Z" />}
            </svg>
          </span>
          <span>
            <b>{STATUS_WORDS[each]}</b>
            {each === current && <span class="pill">now</span>}
            <span class="hint-text">{MEANINGS[each]}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

function Reason({ draft, set }: { draft: Draft; set: (changes: Partial<Draft>) => void }) {
  return (
    <fieldset class="reasons">
      <legend>Why</legend>
      {REASONS.map((each) => (
        <label key={each} class="reason">
          <input
            type="radio"
            name="reason"
            checked={!draft.isOwn && draft.reason === each}
            onChange={() => set({ reason: each, isOwn: false })}
          />
          {each}
        </label>
      ))}
      <label class="labelled own">
        <span>Or in your own words</span>
        <input
          class="field"
          maxLength={500}
          value={draft.isOwn ? draft.reason : ""}
          onInput={({ currentTarget: { value } }) => set({ reason: value || (REASONS[0] ?? ""), isOwn: !!value })}
        />
      </label>
    </fieldset>
  );
}

function Resume({ draft, set, name }: { draft: Draft; set: (changes: Partial<Draft>) => void; name: string }) {
  return (
    <>
      <p>
        <b>Resuming is slow on purpose.</b> It needs an admin, a reason and the name.
      </p>
      <label class="labelled">
        <span>Why it is safe now</span>
        <input
          class="field"
          required
          maxLength={500}
          value={draft.reason}
          onInput={(event) => set({ reason: event.currentTarget.value })}
        />
      </label>
      <label class="labelled">
        <span>
          Type <b>{name}</b>
        </span>
        <input
          class="field"
          autocomplete="off"
          spellcheck={false}
          value={draft.name}
          onInput={(event) => set({ name: event.currentTarget.value })}
        />
      </label>
    </>
  );
}

type LampProps = Pick<Props, "current" | "isKnown" | "wider" | "place" | "working"> & { box: RefObject<HTMLDivElement | null> };

function Lamp({ current, isKnown, wider, place, working, box }: LampProps) {
  const applies = wider && rank(wider.status) > rank(current.status) ? wider : undefined;
  return (
    <div class="latch-lamp" role="status" tabIndex={-1} ref={box}>
      <span class="dim">{placeTitle(place)} is</span>
      <strong>{isKnown ? STATUS_WORDS[applies?.status ?? current.status] : "Not known"}</strong>
      {current.status === "ACTIVE" ? (
        <span class="dim">{working === undefined ? "" : `${working} working`}</span>
      ) : (
        <span class="dim">
          {current.updated_at && (
            <>
              since <Ago at={current.updated_at} />
            </>
          )}{" "}
          · “{current.reason}” · {who(current.principal_type, current.principal_id)}
        </span>
      )}
      {applies && (
        <span class="note">
          By a wider switch: <b>{applies.scope === "PLATFORM" ? "the platform" : placeTitle(applies)}</b>. This one is at{" "}
          “{STATUS_WORDS[current.status]}”; the strictest applies.
        </span>
      )}
    </div>
  );
}

function buttonText(draft: Draft, current: Switch, name: string): string {
  if (draft.status === "ACTIVE") return `Let ${name} trade again`;
  if (draft.status === "REDUCE_ONLY") return `Set ${name} to reduce only`;
  return current.status === "HALTED" ? `Cancel what works on ${name}` : `Halt ${name}`;
}

/** Why the button does nothing yet; empty if it does something. */
function blocked(draft: Draft, current: Switch, name: string): string {
  const isLooser = rank(draft.status) < rank(current.status);
  if (draft.status === current.status && (draft.status === "ACTIVE" || current.cancel_working || !draft.cancel_working)) {
    return `${name} is in this position already.`;
  }
  if (!draft.reason.trim()) return "Enter a reason.";
  if (isLooser && draft.name !== name) return `Type ${name} to confirm.`;
  return "";
}

export function Latch({ place, current, isKnown, wider, working, onChanged, onDraft }: Props) {
  const draft = useSignal(draftFor(current));
  const change = useChange();
  const lamp = useRef<HTMLDivElement>(null);
  useEffect(() => {
    // Few keys to the button, unless the user is somewhere else already.
    if (document.activeElement === document.body) lamp.current?.focus({ preventScroll: true });
  }, []);
  const at = `${placeKey(place)} ${current.status}`;
  useEffect(() => {
    // What was typed stays as long as it can still be sent.
    draft.value = draftFor(current);
  }, [at]);
  const { status, reason, cancel_working } = draft.value;
  useEffect(() => onDraft({ status, reason, cancel_working }), [status, reason, cancel_working, at]);
  const set = (changes: Partial<Draft>) => {
    draft.value = { ...draft.value, ...changes };
  };
  const isLooser = rank(status) < rank(current.status);
  const choose = (to: Status) => {
    const willLoosen = rank(to) < rank(current.status);
    const keeps = willLoosen === isLooser;
    set({ status: to, ...(!keeps && { reason: willLoosen ? "" : (REASONS[0] ?? ""), isOwn: false, name: "" }) });
  };
  const name = placeName(place);
  const operation = editOperation(place.scope);
  const stops = status !== "ACTIVE";
  const why =
    !isKnown && !stops ? "Whether it is halted is not known. Try to read it again." : blocked(draft.value, current, name);
  const send = async (event: Event) => {
    event.preventDefault();
    if (why) return;
    const isDone = await change.run(async () => {
      const wanted = { status, reason: reason.trim(), cancel_working: stops && cancel_working };
      // A stop is never refused because somebody else changed the switch; a resume only ends what was seen.
      const changed = await setSwitch(place, wanted, isLooser ? current.version : undefined);
      onChanged(changed);
      return `${placeTitle(place)} is ${plain(STATUS_WORDS[changed.status])}: version ${changed.version} is committed.`;
    });
    if (isDone) lamp.current?.focus({ preventScroll: true });
  };
  const applied = wider && rank(wider.status) > rank(current.status) ? wider.status : current.status;
  return (
    <form class={`card latch is-${isKnown ? applied.toLowerCase() : "unread"}`} data-status={current.status} onSubmit={(event) => void send(event)}>
      <div class="latch-state">
        <Lamp box={lamp} current={current} isKnown={isKnown} wider={wider} place={place} working={working} />
        <Positions current={isKnown ? current.status : undefined} draft={draft.value} set={choose} />
      </div>
      <div class="latch-act">
        {isLooser ? (
          <Resume draft={draft.value} set={set} name={name} />
        ) : (
          <Reason draft={draft.value} set={set} />
        )}
        {stops && !(isLooser && current.status === "HALTED" && !current.cancel_working) && (
          <label class="check">
            <input
              type="checkbox"
              checked={cancel_working}
              onChange={(event) => set({ cancel_working: event.currentTarget.checked })}
            />
            <span>Cancel what works{working !== undefined && ` (${working})`}</span>
          </label>
        )}
        <ChangeButton
          operation={operation}
          class={`button big ${stops && !isLooser ? "stop" : "main"}`}
          isBusy={change.isBusy}
          disabled={!!why}
        >
          {change.isBusy ? "Committing…" : buttonText(draft.value, current, name)}
        </ChangeButton>
        <Denied
          operation={operation}
          what={isLooser ? "resume" : "halt"}
          also={
            isLooser || operation !== "EDIT_CONTROLS"
              ? ""
              : "So can an API key with control:edit of the account's environment."
          }
        />
        {why && <p class="hint-text">{why}</p>}
        {change.done && (
          <p class="done" role="status">
            {capital(change.done)}
          </p>
        )}
        {change.failure && <Problem failure={change.failure} />}
      </div>
    </form>
  );
}

/** "1 halt in force". */
export const haltsText = (halts: number): string => `${count(halts, "halt")} in force`;
