/** What an intent consists of, and how an event changes it. */
import type { Schemas, StreamEvent } from "@openbell/client";

export interface Intent {
  /** The latest action, with the execution. */
  latest: Schemas["Action"];
  execution: Schemas["Execution"];
  actions: Schemas["Action"][];
  receipts: Schemas["StoredReceipt"][];
  executions: Schemas["ExecutionRow"][];
  events: Schemas["Event"][];
}

export const EVENTS_MAX = 500;

/** The intent after an event; what only a reading has stays as it was. */
export function withEvent(intent: Intent, event: StreamEvent): Intent {
  if (intent.events.some((each) => each.event_id === event.event_id)) return intent;
  const events = [...intent.events, event as Schemas["Event"]].slice(-EVENTS_MAX);
  if (event.broker_trade) return { ...intent, events, executions: withTrade(intent.executions, event) };
  if (!event.broker_order) return { ...intent, events };
  const { status, certainty, filled_quantity, leaves_quantity, average_price, broker_order_ids } = event.broker_order;
  const isSettled = certainty !== "UNKNOWN";
  const execution = {
    status,
    certainty,
    filled_quantity,
    leaves_quantity,
    average_price,
    broker_order_ids: broker_order_ids ?? intent.execution.broker_order_ids,
    updated_at: event.occurred_at ?? intent.execution.updated_at,
    ...(!isSettled && { unknown: intent.execution.unknown }),
  };
  return { ...intent, events, execution };
}

function withTrade(executions: Schemas["ExecutionRow"][], event: StreamEvent): Schemas["ExecutionRow"][] {
  const trade = event.broker_trade;
  if (!trade) return executions;
  const known = executions.find((each) => each.execution_id === trade.execution_id);
  const row: Schemas["ExecutionRow"] = {
    account_id: event.account_id,
    execution_id: trade.execution_id,
    intent_id: trade.intent_id,
    symbol: trade.symbol,
    order_side: trade.order_side,
    kind: trade.kind,
    // A bust has the quantity that it took back; the list shows it as zero.
    quantity: trade.kind === "BUST" ? "0" : trade.quantity,
    price: trade.price,
    executed_at: trade.executed_at,
    recorded_at: known?.recorded_at ?? event.occurred_at ?? trade.executed_at,
    ...(trade.fee !== undefined && { fee: trade.fee }),
  };
  return known ? executions.map((each) => (each === known ? row : each)) : [...executions, row];
}
