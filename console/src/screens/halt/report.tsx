/** One halt report: on one page of paper, and as JSON. */
import { useReading } from "../../api/reading";
import { changesOrders, useEvents } from "../../live/use";
import { href } from "../../shell/router";
import { accountName, me } from "../../shell/session";
import type { ScreenProps } from "../../shell/screens";
import { between, full, millis } from "../../text/time";
import { Code } from "../../ui/Code";
import { Empty, Loading, Problem } from "../../ui/Common";
import { Copy } from "../../ui/Copy";
import { placeTitle, who } from "../../ui/names";
import { SCOPE_WORDS } from "../../ui/places";
import { useScreen } from "../../ui/screen";
import { Checks } from "./Checks";
import { checksOf, type HaltReport, verdict } from "./checks";
import { STATUS_WORDS } from "./Latch";
import { ABOUT, Badge, StillOpen } from "./Proof";
import { reportById } from "./source";
import "./halt.css";

function download(report: HaltReport): void {
  const url = URL.createObjectURL(new Blob([json(report)], { type: "application/json" }));
  const link = Object.assign(document.createElement("a"), { href: url, download: `halt-report-${report.id}.json` });
  link.click();
  URL.revokeObjectURL(url);
}

const json = (report: HaltReport): string => `${JSON.stringify(report, null, 2)}\n`;

function Facts({ report }: { report: HaltReport }) {
  const { since, until } = report;
  const facts: [string, string][] = [
    ["Organization", me.value?.organization?.name ?? "–"],
    ["Account", `${accountName(report.account_id)} (${report.account_id})`],
    ["Switch", `${STATUS_WORDS[report.status]} · ${report.scope === "KEY" ? "" : `${SCOPE_WORDS[report.scope]} `}${placeTitle(report)}`],
    ["Since", full(since)],
    ["Until", until ? `${full(until)}, for ${between(millis(until) - millis(since))}` : "in force"],
    ["Set by", who(report.principal_type, report.principal_id)],
    ["Reason", report.reason ?? "–"],
    ["Cancels what works", report.cancel_working ? "yes" : "no"],
    ["Report", report.id],
  ];
  return (
    <dl class="halt-facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Report({ report }: { report: HaltReport }) {
  return (
    <>
      <section class="card report" aria-label="What the halt did">
        <header>
          <h2>{STATUS_WORDS[report.status]}: {placeTitle(report)}</h2>
          <span class="grow" />
          <Badge report={report} />
        </header>
        <Facts report={report} />
        <Checks checks={checksOf(report)} />
        <StillOpen report={report} />
        <footer class={verdict(report).isProven ? "is-proven" : undefined}>
          <span>
            <b>{verdict(report).text}</b> {ABOUT} Read at {full(report.account?.as_of ?? new Date().toISOString())}.
          </span>
        </footer>
      </section>
      <Code
        title="The same report as a command"
        texts={{
          CLI: `openbell halt-report ${report.account_id} --id ${report.id}`,
          curl: `curl -s "$OPENBELL_URL/v1/halt-reports?account_id=${report.account_id}" \\\n  -H "x-api-key: $OPENBELL_API_KEY"`,
          Python: `client.halt_report("${report.account_id}", report_id="${report.id}")`,
          TypeScript: `await client.take(client.api.GET("/v1/halt-reports", {\n  params: { query: { account_id: "${report.account_id}" } },\n}));`,
        }}
      />
    </>
  );
}

export default function HaltReportScreen({ params }: ScreenProps) {
  const { account = "", report: id = "" } = params;
  const reading = useReading(`${account} ${id}`, async (signal) => ({ report: await reportById(account, id, signal) }));
  const report = reading.data?.report;
  const isOpen = !!report && report.until === null;
  useEvents(
    (event) => isOpen && event.account_id === account && (changesOrders(event) || event.type === "CONTROL_CHANGED"),
    () => isOpen && reading.again(),
    1000,
  );
  useScreen("halt", !!reading.data);
  return (
    <section class="screen halt halt-report" aria-labelledby="title">
      <div class="head">
        <div>
          <p>
            <a href={href(`/halt?account=${account}`)}>Halt</a>
          </p>
          <h1 id="title">Halt report</h1>
        </div>
        <span class="grow" />
        {report && (
          <>
            <Copy text={json(report)} label="Copy JSON of the report">
              Copy JSON
            </Copy>
            <button type="button" class="button small" onClick={() => download(report)}>
              Download JSON
            </button>
            <button type="button" class="button small" onClick={() => print()}>
              Print
            </button>
          </>
        )}
      </div>
      {reading.failure && <Problem failure={reading.failure} again={reading.again} />}
      {!reading.data && !reading.failure && <Loading what="the halt report" />}
      {reading.data &&
        (report ? (
          <Report report={report} />
        ) : (
          <Empty>
            <p>
              <b>This account has no halt report with this id.</b> <a href={href(`/halt?account=${account}`)}>All its reports</a>
            </p>
          </Empty>
        ))}
    </section>
  );
}
