/** Who promised heartbeats: a missed one halts the key or the account. */
import { useReading } from "../../api/reading";
import { changesControls, useEvents } from "../../live/use";
import { href } from "../../shell/router";
import { span } from "../../text/time";
import { Empty, Loading, Problem } from "../../ui/Common";
import { placeTitle, who } from "../../ui/names";
import { addressOf, placeKey } from "../../ui/places";
import { Ago, Time } from "../../ui/Time";
import { readHeartbeats } from "./source";

export function Heartbeats() {
  const reading = useReading("heartbeats", readHeartbeats);
  useEvents(changesControls, reading.again, 1000);
  return (
    <section class="card" aria-labelledby="heartbeats">
      <header>
        <h2 id="heartbeats">Heartbeats promised</h2>
        <span class="dim">A missed one halts its key or account.</span>
        <span class="grow" />
        <button type="button" class="button small" onClick={reading.again}>
          Read again
        </button>
      </header>
      {reading.failure && <Problem failure={reading.failure} again={reading.again} />}
      {!reading.data && !reading.failure && <Loading what="the promises" />}
      {reading.data?.length === 0 && (
        <Empty>
          <p>
            <b>Nobody has promised heartbeats.</b> A bot does so with <code>openbell heartbeat arm 60 --cancel-working</code>;
            if it then stops sending them, its key is halted.
          </p>
        </Empty>
      )}
      {!!reading.data?.length && (
        <div class="scroll" tabIndex={0} role="region" aria-label="List of the promised heartbeats">
          <table class="stack">
            <thead>
              <tr>
                <th>Of</th>
                <th>State</th>
                <th class="right">Timeout</th>
                <th>Last heartbeat (UTC)</th>
                <th>If one is missed</th>
                <th>Promised by</th>
              </tr>
            </thead>
            <tbody>
              {reading.data.map((each) => (
                <tr key={placeKey(each)} data-id={placeKey(each)} data-state={each.status}>
                  <td>
                    <b>{placeTitle(each)}</b> {each.required && <span class="pill">required</span>}
                  </td>
                  <td data-label="State">
                    {each.status === "EXPIRED" ? (
                      <>
                        <span class="pill bad">missed</span> <a href={href(addressOf("/halt", each))}>halted</a>
                      </>
                    ) : (
                      <span class="pill good">armed</span>
                    )}
                  </td>
                  <td class="right" data-label="Timeout">
                    {span(each.timeout_seconds)}
                  </td>
                  <td data-label="Last heartbeat">
                    <Time at={each.last_beat_at} day />
                    {each.status === "EXPIRED" && (
                      <>
                        {" "}
                        · missed <Ago at={each.expires_at} /> ago
                      </>
                    )}
                  </td>
                  <td data-label="If missed">{each.cancel_working ? "halts and cancels what works" : "halts"}</td>
                  <td data-label="Promised by">{who(each.principal_type, each.principal_id)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
