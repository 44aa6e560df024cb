import { type Check, type CheckState, outcomeWord } from "./checks";

const SHAPES: Record<CheckState, string> = {
  DONE: "m3.5 8.5 3 3 6-7",
  WAITING: "M8 3.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9Z",
  WRONG: "m4.5 4.5 7 7m0-7-7 7",
  UNKNOWN: "M6 6.2C6 4.9 6.9 4 8 4s2 .8 2 2c0 1.5-2 1.6-2 3.4M8 12.2v.1",
  NONE: "M4 8h8",
};

/** Each step by shape and word; only what is proven has a tick. */
export function Checks({ checks }: { checks: readonly Check[] }) {
  return (
    <ol class="checks">
      {checks.map(({ title, detail, state }) => (
        <li key={title} class={`check-step is-${state.toLowerCase()}`} data-state={state}>
          <span class="tick" aria-hidden="true">
            <svg viewBox="0 0 16 16">
              <path d={SHAPES[state]} />
            </svg>
          </span>
          <span>
            <b>{title}</b> <span class="outcome">{outcomeWord(state)}</span>
            <span class="detail">{detail}</span>
          </span>
        </li>
      ))}
    </ol>
  );
}
