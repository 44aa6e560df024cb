import { STATES, type State, stateWord } from "../../text/words";
import { now } from "../../ui/Time";
import { Mark } from "../../ui/State";
import type { Book } from "../../live/book";
import { setQuery } from "../../shell/router";
import type { Fills } from "./books";
import { type Filters, toggled } from "./filters";

/** Tiles that are always there; the others appear with the first row of their state. */
const ALWAYS: ReadonlySet<State> = new Set(["UNKNOWN", "WORKING", "FILLED", "REFUSED"]);

function countsOf(book: Book, unknown: Book): Map<State, number> {
  const counts = new Map<State, number>();
  for (const { state } of book.rows) counts.set(state, (counts.get(state) ?? 0) + 1);
  const inDoubt = unknown.rows.filter(({ state }) => state === "UNKNOWN").length;
  counts.set("UNKNOWN", Math.max(inDoubt, counts.get("UNKNOWN") ?? 0));
  return counts;
}

/** How many rows are in each state; each switches a filter. */
export function Tiles({ book, unknown, filters }: { book: Book; unknown: Book; filters: Filters }) {
  void book.version.value;
  void unknown.version.value;
  const counts = countsOf(book, unknown);
  const shown = STATES.filter((state) => counts.get(state) || ALWAYS.has(state) || filters.states.has(state));
  const scope = book.isComplete ? "of all orders" : `of the newest ${book.rows.length.toLocaleString("en-US")}`;
  return (
    <div class="tiles" role="group" aria-label={`Filter by state; counts ${scope}`}>
      {shown.map((state) => {
        const number = counts.get(state) ?? 0;
        const isLoud = state === "UNKNOWN" && number > 0;
        return (
          <button
            type="button"
            key={state}
            class={`tile is-${state.toLowerCase()}${isLoud ? " loud" : ""}`}
            aria-pressed={filters.states.has(state)}
            title={state === "UNKNOWN" ? "All orders in doubt" : `Counted ${scope}`}
            onClick={() => setQuery({ state: toggled(filters.states, state) })}
          >
            <b>{number.toLocaleString("en-US")}</b>
            <span>
              <Mark state={state} />
              {stateWord(state)}
            </span>
          </button>
        );
      })}
    </div>
  );
}

const WIDTH = 240;
const HEIGHT = 36;

/** Fills since the page was opened, at most of five minutes. */
export function FillsChart({ fills }: { fills: Fills }) {
  void fills.version.value;
  const counts = fills.counts(now.value);
  const most = Math.max(4, ...counts);
  const step = WIDTH / counts.length;
  const total = counts.reduce((sum, each) => sum + each, 0);
  return (
    <figure class="fills">
      <figcaption class="dim">
        <b>{total.toLocaleString("en-US")}</b> fills seen here in 5 min
      </figcaption>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} aria-hidden="true">
        <path class="base" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
        {counts.map((count, at) => {
          const high = (count / most) * (HEIGHT - 2);
          return count ? <rect key={at} x={at * step} y={HEIGHT - high} width={step - 1} height={high} /> : null;
        })}
      </svg>
    </figure>
  );
}
