import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useLive } from "../../live/use";
import { query, setQuery } from "../../shell/router";
import type { Account } from "../../shell/session";
import { grouped } from "../../text/decimal";
import { clock, full } from "../../text/time";
import { capital, count, plain } from "../../text/words";
import { Loading, Problem } from "../../ui/Common";
import { NoAccount, shownAccount } from "../../ui/OneAccount";
import { useScreen } from "../../ui/screen";
import { type Filters, filtersOf, summary, symbolOf, TYPES } from "./filters";
import { type Missing, missingBetween } from "./gaps";
import { EventLog, type LogEvent } from "./log";
import { Selected } from "./Selected";
import "./events.css";

const REASONS: Record<string, string> = {
  RETENTION: "they were older than the retention time and were removed",
  DELETED: "they were removed from the database in another way; report this to your operator",
};

function Gap({ of }: { of: Missing }) {
  const range = of.first === of.last ? `Event ${grouped(String(of.first))} is` : `Events ${grouped(String(of.first))} to ${grouped(String(of.last))} are`;
  return (
    <tr class="gap">
      <td colSpan={5}>
        <b>⚠ {range} missing</b>
        {of.reason ? `: ${REASONS[of.reason] ?? of.reason}.` : ". Read the list again; if they are still missing, report this to your operator."}
      </td>
    </tr>
  );
}

function Line({ event, isSelected, onSelect }: { event: LogEvent; isSelected: boolean; onSelect: () => void }) {
  return (
    <tr data-id={event.event_id} class={isSelected ? "selected" : undefined}>
      <td class="right">
        <button type="button" class="link" aria-pressed={isSelected} onClick={onSelect}>
          {grouped(String(event.account_seq))}
        </button>
      </td>
      <td class="nowrap">
        <time dateTime={event.occurred_at} title={full(event.occurred_at)}>
          {clock(event.occurred_at)}
        </time>
      </td>
      <td class="kind">{event.type}</td>
      <td>{symbolOf(event)}</td>
      <td class="what">{summary(event)}</td>
    </tr>
  );
}

function Table({ log, filters, chosen, onSelect }: { log: EventLog; filters: Filters; chosen: number; onSelect: (seq: number) => void }) {
  // The object stays the same when events are added.
  void log.version.value;
  const isFiltered = filters.types.length > 0 || !!filters.symbol || !!filters.intent;
  const missing = isFiltered ? log.gaps : missingBetween(log.rows.map(({ account_seq }) => account_seq), log.gaps);
  const lines = [];
  const left = [...missing].sort((a, b) => b.last - a.last);
  for (const event of log.rows) {
    while (left[0] && left[0].first > event.account_seq) lines.push(<Gap key={`gap-${left[0].first}`} of={left.shift() as Missing} />);
    lines.push(<Line key={event.account_seq} event={event} isSelected={event.account_seq === chosen} onSelect={() => onSelect(event.account_seq)} />);
  }
  for (const each of left) lines.push(<Gap key={`gap-${each.first}`} of={each} />);
  return (
    <table class="events-table">
      <thead>
        <tr>
          <th scope="col" class="right">
            Number
          </th>
          <th scope="col">Time (UTC)</th>
          <th scope="col">Kind</th>
          <th scope="col">Symbol</th>
          <th scope="col">What happened</th>
        </tr>
      </thead>
      <tbody>{lines}</tbody>
    </table>
  );
}

function FilterFields({ filters }: { filters: Filters }) {
  const commit = (name: string) => (event: { currentTarget: HTMLInputElement }) => setQuery({ [name]: event.currentTarget.value.trim() });
  const toggle = (type: string) => {
    const types = filters.types.includes(type) ? filters.types.filter((each) => each !== type) : [...filters.types, type];
    setQuery({ type: types.join().toLowerCase() });
  };
  const hasAny = filters.types.length > 0 || filters.symbol || filters.intent || filters.from > 0;
  return (
    <div class="form-row event-filters">
      <input class="field" type="search" aria-label="Symbol" placeholder="Symbol" maxLength={32} value={filters.symbol} onChange={commit("symbol")} />
      <input class="field intent-field" type="search" aria-label="Id of the intent" placeholder="Id of the intent" maxLength={36} value={filters.intent} onChange={commit("intent")} />
      {filters.from > 0 && (
        <button type="button" class="button" onClick={() => setQuery({ from: undefined })}>
          After #{grouped(String(filters.from))} ✕<span class="hidden-text"> show earlier events too</span>
        </button>
      )}
      {hasAny && (
        <button type="button" class="button" onClick={() => setQuery({ type: undefined, symbol: undefined, intent: undefined, from: undefined })}>
          Clear filters
        </button>
      )}
      <div class="kinds" role="group" aria-label="Kinds of events">
        {TYPES.map((type) => (
          <button type="button" key={type} class="button small" aria-pressed={filters.types.includes(type)} onClick={() => toggle(type)}>
            {capital(plain(type))}
          </button>
        ))}
      </div>
    </div>
  );
}

function Content({ of }: { of: Account }) {
  const filters = filtersOf(query.value);
  const key = JSON.stringify(filters);
  const log = useMemo(() => new EventLog(of.id, filters), [of.id, key]);
  const chosen = useSignal(0);
  const isPaused = useSignal(false);
  const held = useRef<Parameters<EventLog["apply"]>[0][number][]>([]);
  useEffect(() => void log.load(), [log]);
  useLive({
    events: (events) => {
      if (isPaused.peek()) held.current.push(...events);
      else log.apply(events);
    },
    begun: () => void log.load(),
  });
  void log.version.value;
  useScreen("events", log.hasLoaded.value || !!log.failure.value);
  const selected = log.rows.find(({ account_seq }) => account_seq === chosen.value) ?? log.rows[0];
  const pause = () => {
    isPaused.value = !isPaused.value;
    if (!isPaused.value) log.apply(held.current.splice(0));
  };
  return (
    <>
      <FilterFields filters={filters} />
      <p class="dim form-row">
        <span>
          {count(log.rows.length, "event")} read of #{grouped(String(log.oldestStored))} to #{grouped(String(log.newest))}
        </span>
        <button type="button" class="button small" aria-pressed={isPaused.value} onClick={pause}>
          {isPaused.value ? "Go on" : "Pause"}
        </button>
      </p>
      {log.failure.value && <Problem failure={log.failure.value} again={() => void log.load()} />}
      {!log.hasLoaded.value && !log.failure.value && <Loading what="the newest events" />}
      <div class="events-split">
        <section class="card scroll" tabIndex={0} aria-label="Events, the newest first">
          {log.rows.length > 0 && <Table log={log} filters={filters} chosen={selected?.account_seq ?? 0} onSelect={(seq) => (chosen.value = seq)} />}
          {log.hasLoaded.value && log.rows.length === 0 && (
            <p class="note-line">
              <b>No event {log.newest ? "matches" : "yet"}.</b>{" "}
              {log.newest ? (log.isComplete ? "All stored events were looked at." : "The newest were looked at.") : "Submit an order: it appears here."}
            </p>
          )}
          {log.hasLoaded.value && (
            <p class="note-line dim">
              {log.isComplete ? (
                filters.from ? `These are all after #${grouped(String(filters.from))}.` : "These are all that are stored."
              ) : log.isCapped ? (
                "The newest 2,000 are kept here. Filter to look further back."
              ) : (
                <button type="button" class="button small" disabled={log.isLoading.value} onClick={() => void log.older()}>
                  Older events
                </button>
              )}
            </p>
          )}
        </section>
        {selected && <Selected event={selected} />}
      </div>
    </>
  );
}

export default function EventsScreen() {
  const of = shownAccount();
  return (
    <section class="screen events" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Events</h1>
          {of && <p class="dim">The log of {of.name}: what your program saw, or should have seen. Choose another account above.</p>}
        </div>
      </div>
      {of ? <Content of={of} key={of.id} /> : <NoAccount />}
    </section>
  );
}
