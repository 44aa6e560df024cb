/** The proof of a halt that is in force, on one account; read again while it fills in. */
import { useEffect } from "preact/hooks";
import { useReading } from "../../api/reading";
import { changesOrders, useEvents } from "../../live/use";
import { href } from "../../shell/router";
import { accountName } from "../../shell/session";
import { between, clock, millis } from "../../text/time";
import { plain } from "../../text/words";
import { Loading, Problem } from "../../ui/Common";
import { Ago, now } from "../../ui/Time";
import { Checks } from "./Checks";
import { checksOf, type HaltReport, isOfWholeAccount, isRunning, progress, verdict } from "./checks";
import { type HaltInForce, reportOf } from "./source";

const PAUSE = 1000;
// A proof that takes longer waits for the broker or a person: events and a slower reading show what changes.
const SOON = 60_000;
const SLOW_PAUSE = 10_000;

export const ABOUT =
  "This is about orders. It says nothing about positions, nor about orders that were placed directly at the broker before the account was first compared.";

function useProof(account: string, halt: HaltInForce) {
  const key = `${account} ${halt.scope} ${halt.version} ${halt.status}`;
  const reading = useReading(key, async (signal) => ({ report: await reportOf(account, halt, signal) }));
  const report = reading.data?.report;
  const runs = !reading.failure && (report ? isRunning(report) : !!reading.data);
  useEffect(() => {
    if (reading.isLoading || !runs) return undefined;
    const age = Date.now() - millis(halt.updated_at ?? new Date().toISOString());
    const timer = setTimeout(
      () => {
        if (!document.hidden) reading.again();
      },
      age < SOON ? PAUSE : SLOW_PAUSE,
    );
    return () => clearTimeout(timer);
  }, [reading.data, reading.isLoading, runs]);
  useEvents(
    (event) => event.account_id === account && changesOrders(event),
    () => !reading.isLoading && reading.again(),
    PAUSE,
  );
  return reading;
}

function proofTime(report: HaltReport): string {
  if (!report.compared_at || !isOfWholeAccount(report)) return "";
  return ` after ${between(millis(report.compared_at) - millis(report.since))}`;
}

export function Badge({ report }: { report: HaltReport }) {
  const { done, of } = progress(checksOf(report));
  if (verdict(report).isProven) return <span class="pill good">proven{proofTime(report)}</span>;
  if (report.until === null && report.no_working_orders === null && !isRunning(report)) {
    return <span class="pill">{`${done} of ${of}, the rest is not known`}</span>;
  }
  return <span class="pill">{`${done} of ${of}`}</span>;
}

/** Orders that still work, those at the broker that are not ours, and commands that were in flight. */
export function StillOpen({ report }: { report: HaltReport }) {
  const { account, in_flight_commands: flying, account_id } = report;
  const orders = account?.orders ?? [];
  const external = account?.external_orders ?? [];
  if (!orders.length && !external.length && !flying.length) return null;
  const intent = (id: string) => (
    <a href={href(`/accounts/${account_id}/intents/${id}`)}>
      <code>{id.slice(0, 13)}…</code>
    </a>
  );
  return (
    <div class="scroll still-open" tabIndex={0} role="region" aria-label="Orders and commands of the halt">
      <table class="stack">
        <thead>
          <tr>
            <th>What</th>
            <th>Symbol</th>
            <th>State</th>
            <th>Intent</th>
            <th class="right">Last change</th>
          </tr>
        </thead>
        <tbody>
          {orders.map((order) => (
            <tr key={order.intent_id} data-id={order.intent_id} data-state={order.status}>
              <td>Still open</td>
              <td>
                <b>{order.symbol}</b>
              </td>
              <td>
                {plain(order.status)} {order.in_doubt && <span class="pill unknown">? in doubt</span>}
              </td>
              <td data-label="Intent">{intent(order.intent_id)}</td>
              <td class="right nowrap" data-label="Last change">
                {clock(order.updated_at)} <Ago at={order.updated_at} />
              </td>
            </tr>
          ))}
          {external.map((id) => (
            <tr key={id} data-id={id}>
              <td>At the broker, not sent by Openbell</td>
              <td>–</td>
              <td>open</td>
              <td>
                <code>{id}</code>
              </td>
              <td />
            </tr>
          ))}
          {flying.map((each) => (
            <tr key={each.action_id} data-id={each.action_id} data-state={each.status}>
              <td>In flight at the halt: {plain(each.action_type)}</td>
              <td>
                <b>{each.symbol}</b>
              </td>
              <td>{each.settled_at ? plain(each.status) : `${plain(each.status)}, no outcome yet`}</td>
              <td data-label="Intent">{intent(each.intent_id)}</td>
              <td class="right nowrap" data-label="Last change">{clock(each.settled_at ?? each.dispatched_at)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

export function Proof({ account, halt }: { account: string; halt: HaltInForce }) {
  const { data, failure, again, isLoading } = useProof(account, halt);
  const report = data?.report;
  // The words "after 3 s" are of the report; the clock only shows that the page lives.
  void now.value;
  return (
    <section class="card proof" aria-label={`Proof for ${accountName(account)}`} data-account={account}>
      <header>
        <h2>Proof that nothing works any more · {accountName(account)}</h2>
        <span class="grow" />
        {report && <Badge report={report} />}
        {report && <a href={href(`/accounts/${account}/halt-reports/${report.id}`)}>Report</a>}
      </header>
      {failure && <Problem failure={failure} again={again} />}
      {report ? (
        <>
          <Checks checks={checksOf(report)} />
          <StillOpen report={report} />
          <footer class={verdict(report).isProven ? "is-proven" : undefined}>
            <span>
              <b>{verdict(report).text}</b> {ABOUT}
            </span>
          </footer>
        </>
      ) : (
        !failure &&
        (isLoading || !data ? (
          <Loading what="the halt report" />
        ) : (
          <p class="message">The report of this halt is not there yet. It is read again.</p>
        ))
      )}
    </section>
  );
}
