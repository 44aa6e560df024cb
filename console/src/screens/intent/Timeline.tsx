import { between, clock, day, full, millis } from "../../text/time";
import type { Step } from "./steps";

/** Places on a strip, 0 to 1000, on a scale of the logarithm of the time. */
function placeOf(step: Step, first: number, last: number): number {
  const whole = Math.log1p(Math.max(1, last - first));
  return 1000 * (Math.log1p(Math.max(0, millis(step.at) - first)) / whole);
}

function Strip({ steps }: { steps: readonly Step[] }) {
  const times = steps.map((step) => millis(step.at));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  return (
    <svg class="strip" viewBox="-20 0 1040 30" aria-hidden="true" preserveAspectRatio="xMidYMid meet">
      <path d="M0 15H1000" class="base" />
      {steps.map((step, at) => {
        const x = placeOf(step, first, last);
        return step.clock === "broker" ? (
          <path key={at} d={`M${x} 6l9 9-9 9-9-9Z`} class={`mark-${step.tone}`} />
        ) : (
          <circle key={at} cx={x} cy={15} r={7} class={`mark-${step.tone}`} />
        );
      })}
    </svg>
  );
}

function when(step: Step, at: number, first: Step | undefined): string {
  // A difference between two clocks would be no duration.
  if (at === 0 || step.clock === "broker" || !first) return clock(step.at);
  return `+${between(millis(step.at) - millis(first.at))}`;
}

/** Steps of Openbell's clock are round; those of the broker's clock are diamonds and say so. */
export function Timeline({ steps }: { steps: readonly Step[] }) {
  const own = steps.filter((step) => step.clock === "openbell");
  const [first, last] = [own[0], own.at(-1)];
  return (
    <section class="card">
      <header>
        <h2>What happened</h2>
        <span class="dim">
          {first && day(first.at)} · ● Openbell's clock ◆ the broker's clock
        </span>
        <span class="grow" />
        {first && last && first !== last && (
          <span class="dim">{between(millis(last.at) - millis(first.at))} from first to last</span>
        )}
      </header>
      <Strip steps={steps} />
      <ol class="steps">
        {steps.map((step, at) => (
          <li key={at} class={`is-${step.clock} tone-${step.tone}`}>
            <time class="mono" dateTime={step.at} title={full(step.at)}>
              {when(step, at, first)}
            </time>
            <span class="dot" aria-hidden="true" />
            <span class="what">
              <b>
                {step.title} {step.clock === "broker" && <span class="clock-mark">broker's clock</span>}
              </b>
              {step.note && <span class="dim">{step.note}</span>}
            </span>
          </li>
        ))}
      </ol>
    </section>
  );
}
