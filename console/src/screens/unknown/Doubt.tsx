import { useEffect } from "preact/hooks";
import { useReading } from "../../api/reading";
import type { Row } from "../../live/rows";
import { href } from "../../shell/router";
import { accountName } from "../../shell/session";
import { haltAddress } from "../../text/addresses";
import { grouped } from "../../text/decimal";
import { capital, plain } from "../../text/words";
import { Problem } from "../../ui/Common";
import { Copy } from "../../ui/Copy";
import { Side, StateChip } from "../../ui/State";
import { Ago, Time } from "../../ui/Time";
import { asked, type Evidence, readEvidence, settleCommand } from "./evidence";

function Settle({ evidence: { action, unknown } }: { evidence: Evidence }) {
  if (!action) return null;
  const command = settleCommand(action.id, unknown?.candidates[0]);
  return (
    <details>
      <summary>If it does not settle: what an operator does</summary>
      <p class="dim">
        Settling is the operator's, because it takes the broker's own records. Search them by the client order id, or by
        symbol, side, quantity and time. The command sends nothing to the broker; it is in the audit log with its reason.
        The outcomes are <code>acked</code>, <code>refused</code>, <code>failed</code> and <code>abandoned</code>.
      </p>
      <pre class="code" tabIndex={0} role="region" aria-label="The operator's commands">
        {command}
      </pre>
      <Copy text={command} label="Copy the operator's commands" />
    </details>
  );
}

function Known({ evidence }: { evidence: Evidence }) {
  const { unknown, action } = evidence;
  if (!unknown) return <p class="dim">It has just been settled.</p>;
  const { candidates } = unknown;
  return (
    <>
      <dl class="facts">
        <dt>In doubt since</dt>
        <dd>
          <Time at={unknown.since} />
          {action && ` · its ${plain(action.action_type)} command`}
        </dd>
        <dt>So far</dt>
        <dd>{asked(unknown)}</dd>
        <dt>Settles by</dt>
        <dd>
          <b>{unknown.settles_by}</b>
        </dd>
        <dt>Operator</dt>
        <dd>{unknown.flagged_at ? <>flagged <Ago at={unknown.flagged_at} /> ago</> : "not flagged yet"}</dd>
        {candidates.length > 0 && (
          <>
            <dt>May be this one</dt>
            <dd>
              {candidates.map((each) => (
                <span key={each} class="candidate">
                  <code>{each}</code> <Copy text={each} label={`Copy the broker's order id ${each}`} />
                </span>
              ))}{" "}
              <span class="dim">at the broker; Openbell does not guess which.</span>
            </dd>
          </>
        )}
      </dl>
      <Settle evidence={evidence} />
    </>
  );
}

/** One order in doubt. It is read again when an event reports a change of it. */
export function Doubt({ row }: { row: Row }) {
  const evidence = useReading(row.id, (signal) => readEvidence(row.account, row.id, signal));
  useEffect(() => {
    if (row.changes) evidence.again();
  }, [row.changes]);
  return (
    <article class="card doubt" data-id={row.id} data-state={row.state} aria-labelledby={`doubt-${row.id}`}>
      <header>
        <h2 id={`doubt-${row.id}`}>
          <StateChip state="UNKNOWN" />
          <Side side={row.side} /> {grouped(row.quantity)} <b>{row.symbol}</b>
        </h2>
        <span class="dim">
          {accountName(row.account)} · submitted <Ago at={row.at} /> ago
        </span>
        <span class="grow" />
        <a class="button small" href={href(`/accounts/${row.account}/intents/${row.id}`)}>
          Open<span class="hidden-text"> the intent of {row.symbol}</span>
        </a>
        <button type="button" class="button small" onClick={evidence.again}>
          Read again
        </button>
        <a class="button small stop" href={href(haltAddress({ scope: "SYMBOL", account_id: row.account, symbol: row.symbol }))}>
          Halt {row.symbol}…
        </a>
      </header>
      <div class="pad">
        {row.reason && <p class="dim">{capital(row.reason)}</p>}
        {evidence.failure && <Problem failure={evidence.failure} again={evidence.again} />}
        {evidence.data ? <Known evidence={evidence.data} /> : !evidence.failure && <p class="dim">Reading the evidence…</p>}
      </div>
    </article>
  );
}
