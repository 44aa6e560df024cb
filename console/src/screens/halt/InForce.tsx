/** Every halt in force, the widest first: what, who, when and why. */
import { setQuery } from "../../shell/router";
import { type Account, openAccounts } from "../../shell/session";
import { Empty } from "../../ui/Common";
import { placeTitle, who } from "../../ui/names";
import { placeKey, placeQuery, SCOPE_WORDS } from "../../ui/places";
import { Time } from "../../ui/Time";
import { haltsText, STATUS_WORDS } from "./Latch";
import type { HaltInForce } from "./source";

function Line({ halt, isShown }: { halt: HaltInForce; isShown: boolean }) {
  return (
    <tr data-id={placeKey(halt)} data-state={halt.status} class={isShown ? "is-here" : undefined}>
      <td>
        <span class={`halt-chip is-${halt.status.toLowerCase()}`}>
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d={halt.status === "HALTED" ? "M4 4h8v8H4Z" : "M8 3v9.5M4.2 8.8 8 12.6l3.8-3.8"} />
          </svg>
          {STATUS_WORDS[halt.status]}
        </span>
      </td>
      <td>
        <b>{placeTitle(halt)}</b> {halt.scope !== "KEY" && <span class="dim">{SCOPE_WORDS[halt.scope]?.toLowerCase()}</span>}
        {halt.cancel_working && <span class="dim"> · cancels what works</span>}
      </td>
      <td class="why" data-label="Why">“{halt.reason ?? "no reason was given"}”</td>
      <td data-label="Who">{who(halt.principal_type, halt.principal_id)}</td>
      <td data-label="Since">{halt.updated_at && <Time at={halt.updated_at} day />}</td>
      <td class="right">
        {halt.scope !== "PLATFORM" && (
          <button type="button" class="button small" aria-pressed={isShown} onClick={() => setQuery(placeQuery(halt))}>
            Show<span class="hidden-text"> the switch of {placeTitle(halt)}</span>
          </button>
        )}
      </td>
    </tr>
  );
}

/** Openbell stopped the account itself; only the operator resumes it. */
function Stopped({ of }: { of: Account }) {
  return (
    <tr data-id={`STOPPED ${of.id}`} data-state="HALTED">
      <td>
        <span class="halt-chip is-halted">
          <svg viewBox="0 0 16 16" aria-hidden="true">
            <path d="M4 4h8v8H4Z" />
          </svg>
          Stopped
        </span>
      </td>
      <td>
        <b>{of.name}</b> <span class="dim">by Openbell; the operator resumes it</span>
      </td>
      <td class="why" data-label="Why">
        <code>{of.halt_code}</code> {of.halt_detail}
      </td>
      <td data-label="Who">Openbell</td>
      <td data-label="Since">{of.halted_at && <Time at={of.halted_at} day />}</td>
      <td />
    </tr>
  );
}

export function InForce({ halts, shown }: { halts: readonly HaltInForce[]; shown: string }) {
  const stopped = openAccounts.value.filter((each) => each.halt_code);
  const all = halts.length + stopped.length;
  return (
    <section class="card" aria-labelledby="in-force">
      <header>
        <h2 id="in-force">{all ? haltsText(all) : "Halts in force"}</h2>
      </header>
      {all ? (
        <div class="scroll" tabIndex={0} role="region" aria-label="List of the halts in force">
          <table class="halts stack">
            <thead>
              <tr>
                <th>State</th>
                <th>Where</th>
                <th>Why</th>
                <th>Who</th>
                <th>Since (UTC)</th>
                <th>
                  <span class="hidden-text">Show</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {stopped.map((each) => (
                <Stopped key={each.id} of={each} />
              ))}
              {halts.map((halt) => (
                <Line key={placeKey(halt)} halt={halt} isShown={placeKey(halt) === shown} />
              ))}
            </tbody>
          </table>
        </div>
      ) : (
        <Empty>
          <p>
            <b>No halt is in force.</b> Every account, symbol and key may trade what its rules let pass.
          </p>
        </Empty>
      )}
    </section>
  );
}
