import { Problem } from "./Common";
import type { Change } from "./Change";

/** What became of the last change; nothing before the first. */
export function Outcome({ of }: { of: Change }) {
  return (
    <div class="outcome" aria-live="polite">
      {of.done && <p class="good-text">✓ {of.done}</p>}
      {of.failure && <Problem failure={of.failure} />}
    </div>
  );
}
