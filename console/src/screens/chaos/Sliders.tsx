import { type Fault, GROUPS, type Plan } from "./faults";

/** What a switch begins with. */
const START_RATE = 0.1;
const START_MILLIS = 1000;

function wordsOf({ most, isFlag }: Fault, value: number): string {
  if (isFlag) return "on";
  return most ? `${value.toLocaleString("en-US")} ms` : `${Math.round(value * 100)} %`;
}

function Line({ fault, value, set, isDenied }: { fault: Fault; value: number | undefined; set: (value: number | undefined) => void; isDenied: boolean }) {
  const { name, text, most, isFlag } = fault;
  const isOn = value !== undefined;
  return (
    <li class={isOn ? "on" : undefined} data-id={name}>
      <label class="tick">
        <input
          type="checkbox"
          role="switch"
          checked={isOn}
          disabled={isDenied}
          data-operation="EDIT_ACCOUNTS"
          onChange={() => set(isOn ? undefined : isFlag ? 1 : most ? Math.min(START_MILLIS, most) : START_RATE)}
        />
        <span>
          {text} <code class="dim">{name}</code>
        </span>
      </label>
      {isOn && !isFlag && (
        <input
          type="range"
          aria-label={`${name}: ${text}`}
          aria-valuetext={wordsOf(fault, value)}
          min={most ? 100 : 0.01}
          max={most ? Math.min(most, 30_000) : 1}
          step={most ? 100 : 0.01}
          disabled={isDenied}
          value={value}
          onInput={(event) => set(Number(event.currentTarget.value))}
        />
      )}
      {isOn && <output>{wordsOf(fault, value)}</output>}
    </li>
  );
}

export function Sliders({ plan, set, isDenied }: { plan: Plan; set: (name: string, value: number | undefined) => void; isDenied: boolean }) {
  return (
    <>
      {GROUPS.map(({ title, faults }, at) => {
        const on = faults.filter(({ name }) => plan[name] !== undefined).length;
        return (
          <details key={title} class="card faults" open={at < 2 || on > 0}>
            <summary>
              {title} {on > 0 && <span class="pill bad">{on} on</span>}
            </summary>
            <ul>
              {faults.map((fault) => (
                <Line key={fault.name} fault={fault} value={plan[fault.name]} set={(value) => set(fault.name, value)} isDenied={isDenied} />
              ))}
            </ul>
          </details>
        );
      })}
    </>
  );
}
