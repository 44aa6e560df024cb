import { useSignal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import type { Schemas } from "../../api/api";
import { stateOf, stateOfAction } from "../../live/rows";
import type { ScreenProps } from "../../shell/screens";
import { accountName, denial } from "../../shell/session";
import { grouped, price, sum } from "../../text/decimal";
import { clock, full } from "../../text/time";
import { count, OPEN_STATES, plain, type State, timeInForce, times } from "../../text/words";
import { Code } from "../../ui/Code";
import { Action, Loading, Problem } from "../../ui/Common";
import { Copy } from "../../ui/Copy";
import { Money, Quantity } from "../../ui/Number";
import { Side, StateChip } from "../../ui/State";
import { CancelDialog } from "../blotter/CancelDialog";
import { ReceiptCard } from "../receipt/ReceiptCard";
import { readCommands, submitCommands, type Terms } from "./commands";
import { useIntent } from "./history";
import type { Intent } from "./merge";
import { sentenceOf } from "./sentence";
import { Timeline } from "./Timeline";
import { timelineOf } from "./steps";
import "./intent.css";

/** The terms in force: those of the last accepted command that has some. */
function termsOf({ actions, latest }: Intent): Omit<Terms, "key"> {
  const first = actions[0] ?? latest;
  const accepted = actions.filter(({ action_type, status }) => action_type === "REPLACE" && status === "ACKED").at(-1);
  const { symbol, order_side, order_type, quantity, time_in_force, limit_price, stop_price } = accepted ?? first;
  return {
    account: first.account_id,
    symbol,
    side: order_side,
    type: order_type,
    quantity,
    timeInForce: time_in_force,
    limit: limit_price,
    stop: stop_price,
  };
}

function stateOfIntent({ execution, actions }: Intent): State {
  const create = actions[0];
  if (execution.status === "PENDING_NEW" && create && execution.certainty !== "UNKNOWN") {
    return create.status === "ACKED" ? "WORKING" : stateOfAction(create.status);
  }
  return stateOf(execution.status, execution.certainty, execution.filled_quantity);
}

function Facts({ intent, terms }: { intent: Intent; terms: Omit<Terms, "key"> }) {
  const { execution, latest, actions } = intent;
  const first = actions[0] ?? latest;
  return (
    <section class="card">
      <header>
        <h2>Order</h2>
      </header>
      <dl class="facts">
        <dt>Filled</dt>
        <dd>
          {grouped(execution.filled_quantity)} of {grouped(terms.quantity)}
        </dd>
        <dt>Average price</dt>
        <dd>
          <Money value={execution.average_price} />
        </dd>
        <dt>Open</dt>
        <dd>
          <Quantity value={execution.leaves_quantity} />
        </dd>
        {terms.limit && <Fact name="Limit" value={price(terms.limit)} />}
        {terms.stop && <Fact name="Stop" value={price(terms.stop)} />}
        <Fact name="Time in force" value={plain(terms.timeInForce)} />
        <Fact name="Route" value={first.route_strategy} />
        <Fact name="Certainty" value={plain(execution.certainty)} />
        <dt>Broker's order</dt>
        <dd class="mono">{execution.broker_order_ids.join(", ") || "none yet"}</dd>
        {first.client_reference_id && (
          <>
            <dt>Your reference</dt>
            <dd class="mono">{first.client_reference_id}</dd>
          </>
        )}
        <Fact name="Account" value={accountName(first.account_id)} />
        <Fact name="Recorded" value={full(first.created_at)} />
      </dl>
    </section>
  );
}

function Fact({ name, value }: { name: string; value: string }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{value}</dd>
    </>
  );
}

function Fills({ executions }: { executions: Intent["executions"] }) {
  const fees = executions.map(({ fee }) => fee).filter((fee) => fee !== undefined);
  return (
    <section class="card">
      <header>
        <h2>Fills</h2>
        <span class="dim">{count(executions.length, "execution")}</span>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Fills">
        <table>
          <thead>
            <tr>
              <th>◆ Executed (broker's clock)</th>
              <th>● Recorded (Openbell)</th>
              <th class="right">Quantity</th>
              <th class="right">Price</th>
              <th class="right">Fee</th>
              <th>Execution</th>
            </tr>
          </thead>
          <tbody>
            {executions.map((each) => (
              <tr key={each.execution_id}>
                <td class="nowrap">
                  <time dateTime={each.executed_at} title={full(each.executed_at)}>
                    {clock(each.executed_at)}
                  </time>
                </td>
                <td class="nowrap">
                  <time dateTime={each.recorded_at} title={full(each.recorded_at)}>
                    {clock(each.recorded_at)}
                  </time>
                </td>
                <td class="right">{grouped(each.quantity)}</td>
                <td class="right">{price(each.price)}</td>
                <td class="right">{each.fee === undefined ? "–" : grouped(each.fee)}</td>
                <td>
                  <span class="mono">{each.execution_id}</span>{" "}
                  {each.kind !== "NORMAL" && <span class="pill bad">{plain(each.kind)}</span>}
                </td>
              </tr>
            ))}
          </tbody>
          {executions.length > 1 && (
            <tfoot>
              <tr>
                <th colSpan={2}>Sum</th>
                <th class="right">{grouped(sum(executions.map(({ quantity }) => quantity)))}</th>
                <th />
                <th class="right">{fees.length ? grouped(sum(fees)) : "–"}</th>
                <th />
              </tr>
            </tfoot>
          )}
        </table>
      </div>
    </section>
  );
}

function Doubt({ unknown, again }: { unknown: Schemas["Unknown"]; again: () => void }) {
  const found = unknown.probes.filter((probe) => probe.found).length;
  return (
    <section class="card doubt">
      <header>
        <h2>What is in doubt, and what would settle it</h2>
        <span class="grow" />
        <button type="button" class="button small" onClick={again} title="Look-ups are not reported by events">
          Read again
        </button>
      </header>
      <dl class="facts">
        <Fact name="Unknown since" value={full(unknown.since)} />
        <Fact name="May have been sent" value={times(unknown.writes)} />
        <Fact
          name="Look-ups at the broker"
          value={unknown.probes.length ? `${unknown.probes.length}, ${found} showed it` : "none yet"}
        />
        {unknown.flagged_at && <Fact name="Flagged for a person" value={full(unknown.flagged_at)} />}
      </dl>
      <p class="pad">
        <b>Settled by:</b> {unknown.settles_by}
      </p>
      {unknown.candidates.length > 0 && (
        <p class="pad">
          <b>Orders at the broker that may be this one:</b> <span class="mono">{unknown.candidates.join(", ")}</span>
        </p>
      )}
      <p class="pad dim">
        Do not send the same order again under another key: that is another order. You can cancel this one; after a
        cancel it is not sent again.
      </p>
    </section>
  );
}

function Cancel({ intent, state, terms }: { intent: Intent; state: State; terms: Omit<Terms, "key"> }) {
  const isAsked = useSignal(false);
  const denied =
    denial("CANCEL_ORDERS", "cancel orders") || (OPEN_STATES.has(state) ? "" : "The order has ended; there is nothing to cancel.");
  const row = { id: intent.latest.intent_id, account: terms.account, state, side: terms.side, quantity: terms.quantity, symbol: terms.symbol };
  return (
    <>
      <Action operation="CANCEL_ORDERS" denied={denied} onClick={() => (isAsked.value = true)}>
        Cancel order
      </Action>
      {isAsked.value && <CancelDialog rows={[row]} onClose={() => (isAsked.value = false)} />}
    </>
  );
}

export default function IntentScreen({ params }: ScreenProps) {
  const { account = "", intent: id = "" } = params;
  const key = useMemo(() => crypto.randomUUID(), []);
  const { data: intent, failure, again } = useIntent(account, id);
  if (failure && !intent) return <Problem title="This intent cannot be shown" failure={failure} again={again} />;
  if (!intent) return <Loading what="the intent" />;
  const terms = termsOf(intent);
  const state = stateOfIntent(intent);
  const sentence = sentenceOf({ ...intent, quantity: terms.quantity });
  const { unknown } = intent.execution;
  return (
    <section class="screen intent" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">
            <Side side={terms.side} /> {grouped(terms.quantity)} {terms.symbol}{" "}
            <span class="dim">
              {plain(terms.type)} {terms.stop && `stop ${price(terms.stop)}`} {terms.limit && price(terms.limit)}{" "}
              {timeInForce(terms.timeInForce)}
            </span>
          </h1>
          <p class="dim">
            <span class="mono">{id}</span> <Copy text={id} label="Copy the id of the intent" />
          </p>
        </div>
        <span class="grow" />
        <Cancel intent={intent} state={state} terms={terms} />
        <StateChip state={state} big />
      </div>
      <p class={`sentence ${sentence.tone}`} role="status">
        {sentence.text}
      </p>
      {failure && <Problem failure={failure} again={again} />}
      <div class="columns">
        <div>
          {unknown && <Doubt unknown={unknown} again={again} />}
          <Timeline steps={timelineOf({ ...intent, unknown })} />
          {intent.executions.length > 0 && <Fills executions={intent.executions} />}
          {intent.receipts.map((receipt) => (
            <ReceiptCard key={receipt.id} receipt={receipt} />
          ))}
        </div>
        <aside>
          <Facts intent={intent} terms={terms} />
          <Code title="Read this intent" texts={readCommands(account, id)} />
          <Code title="Submit another" texts={submitCommands({ ...terms, key })} />
        </aside>
      </div>
    </section>
  );
}
