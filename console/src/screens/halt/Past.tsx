/** The halts of one account, the newest first, with their reports. */
import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { type Failure, failureOf } from "../../api/api";
import { useReading } from "../../api/reading";
import { changesControls, useEvents } from "../../live/use";
import { href } from "../../shell/router";
import { accountName } from "../../shell/session";
import { between, full, millis } from "../../text/time";
import { Empty, Loading, Problem } from "../../ui/Common";
import { placeTitle, who } from "../../ui/names";
import type { HaltReport } from "./checks";
import { STATUS_WORDS } from "./Latch";
import { Badge } from "./Proof";
import { reportPage } from "./source";

function Line({ report }: { report: HaltReport }) {
  const { since, until } = report;
  return (
    <tr data-id={report.id} data-state={report.status}>
      <td class="nowrap">
        <a href={href(`/accounts/${report.account_id}/halt-reports/${report.id}`)}>{full(since)}</a>
      </td>
      <td class="nowrap" data-label="For">{until ? between(millis(until) - millis(since)) : <b>in force</b>}</td>
      <td>
        {STATUS_WORDS[report.status]} · {placeTitle(report)}
      </td>
      <td class="why" data-label="Why">“{report.reason ?? "no reason was given"}”</td>
      <td data-label="Who">{who(report.principal_type, report.principal_id)}</td>
      <td data-label="Steps done">
        <Badge report={report} />
      </td>
    </tr>
  );
}

export function Past({ account }: { account: string }) {
  const reading = useReading(account, (signal) => reportPage(account, undefined, signal));
  const older = useSignal<{ rows: HaltReport[]; next: string | null | undefined } | undefined>(undefined);
  const failure = useSignal<Failure | undefined>(undefined);
  useEffect(() => {
    older.value = undefined;
  }, [account, reading.data]);
  useEvents(
    (event) => event.account_id === account && changesControls(event),
    () => reading.again(),
    1000,
  );
  const next = older.value ? older.value.next : reading.data?.next_cursor;
  const more = async () => {
    failure.value = undefined;
    try {
      const page = await reportPage(account, next ?? undefined);
      older.value = { rows: [...(older.value?.rows ?? []), ...page.data], next: page.next_cursor };
    } catch (error) {
      failure.value = failureOf(error);
    }
  };
  const rows = [...(reading.data?.data ?? []), ...(older.value?.rows ?? [])];
  return (
    <section class="card" aria-labelledby="past">
      <header>
        <h2 id="past">Halt reports of {accountName(account)}</h2>
        <span class="dim">Each change of a switch that is not Trading is a halt of its own.</span>
      </header>
      {reading.failure && <Problem failure={reading.failure} again={reading.again} />}
      {!reading.data && !reading.failure && <Loading what="the halt reports" />}
      {reading.data && rows.length === 0 && (
        <Empty>
          <p>
            <b>This account was never halted.</b> After a halt its report is listed here, and stays.
          </p>
        </Empty>
      )}
      {rows.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="List of the halt reports">
          <table class="halts stack">
            <thead>
              <tr>
                <th>Since</th>
                <th>For</th>
                <th>What</th>
                <th>Why</th>
                <th>Who</th>
                <th>Steps done</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((report) => (
                <Line key={report.id} report={report} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {failure.value && <Problem failure={failure.value} again={() => void more()} />}
      {next && (
        <footer>
          <button type="button" class="button small" onClick={() => void more()}>
            Older reports
          </button>
        </footer>
      )}
    </section>
  );
}
