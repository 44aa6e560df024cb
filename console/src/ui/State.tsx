/** A state by shape, word and colour; never by colour alone. */
import { type State, stateWord } from "../text/words";

const RING = "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3Z";
const SHAPES: Record<State, string> = {
  UNKNOWN: "M6 6.2C6 4.9 6.9 4 8 4s2 .8 2 2c0 1.5-2 1.6-2 3.4M8 12.2v.1",
  QUEUED: RING,
  SENDING: "M3 8h8M8 4.5 11.5 8 8 11.5",
  WORKING: "M8 4a4 4 0 1 1 0 8 4 4 0 0 1 0-8Z",
  PARTIAL: RING,
  FILLED: "m3.5 8.5 3 3 6-7",
  REFUSED: `${RING}M4.6 11.4l6.8-6.8`,
  FAILED: "m4.5 4.5 7 7m0-7-7 7",
  CANCELED: "M3.5 8h9",
  EXPIRED: `${RING}M8 5.2V8l1.9 1.4`,
  SKIPPED: "M4 4.5 8 8l-4 3.5M9 4.5 13 8l-4 3.5",
};

export function Mark({ state }: { state: State }) {
  return (
    <svg class={`mark is-${state.toLowerCase()}`} viewBox="0 0 16 16" aria-hidden="true">
      <path d={SHAPES[state]} class={state === "WORKING" ? "solid" : undefined} />
      {state === "PARTIAL" && <path d="M8 3a5 5 0 0 0 0 10Z" class="solid" />}
    </svg>
  );
}

export function StateChip({ state, big = false }: { state: State; big?: boolean }) {
  return (
    <span class={`state is-${state.toLowerCase()}${big ? " big" : ""}`}>
      <Mark state={state} />
      {stateWord(state)}
    </span>
  );
}

/** Buy and sell by arrow, word and colour. */
export function Side({ side }: { side: string }) {
  if (side === "BUY") return <span class="side buy">▲ Buy</span>;
  return <span class="side sell">▼ {side === "SELL_SHORT" ? "Short" : "Sell"}</span>;
}
