/** One row for each intent, and for each command that a control refused; kept current by events. */
import type { Schemas, StreamEvent } from "@openbell/client";
import { isZero } from "../text/decimal";
import { timeOfId } from "../text/time";
import type { State } from "../text/words";

export interface Row {
  /** Of the intent; of the receipt if `isRefusal`. Both increase with time. */
  readonly id: string;
  readonly account: string;
  readonly at: string;
  readonly isRefusal: boolean;
  readonly symbol: string;
  readonly side: string;
  readonly type: string;
  readonly timeInForce: string;
  readonly quantity: string;
  readonly filled: string;
  readonly state: State;
  readonly updated: string;
  readonly limit?: string;
  readonly stop?: string;
  readonly average?: string;
  /** The command that the order waits for: NEW, REPLACE, CANCEL. */
  readonly pending?: string;
  readonly reason?: string;
  /** How often events changed it, and when the last one did. */
  readonly changes: number;
  readonly changedAt: number;
}

const STATES: Record<string, State> = {
  PENDING_NEW: "QUEUED",
  NEW: "WORKING",
  PARTIALLY_FILLED: "PARTIAL",
  FILLED: "FILLED",
  CANCELED: "CANCELED",
  EXPIRED: "EXPIRED",
  REJECTED: "REFUSED",
  SKIPPED: "SKIPPED",
  FAILED: "FAILED",
  RECONCILED_OUT: "FAILED",
  UNKNOWN: "UNKNOWN",
};

/** The state of an order, by its status. While a cancel or a replace is pending, the order works. */
export function stateOf(status: string, certainty: string, filled: string): State {
  if (certainty === "UNKNOWN") return "UNKNOWN";
  if (status === "PENDING_CANCEL" || status === "PENDING_REPLACE") return isZero(filled) ? "WORKING" : "PARTIAL";
  return STATES[status] ?? "QUEUED";
}

// What the outcome of a CREATE says as long as no order was reported.
const OF_ACTION: Record<string, State> = {
  QUEUED: "QUEUED",
  DISPATCHING: "SENDING",
  SENT: "SENDING",
  ACKED: "WORKING",
  REFUSED: "REFUSED",
  SKIPPED: "SKIPPED",
  FAILED: "FAILED",
  ABANDONED: "FAILED",
  UNKNOWN: "UNKNOWN",
};

/** The state of a CREATE without an order, by the status of the action. */
export const stateOfAction = (status: string): State => OF_ACTION[status] ?? "QUEUED";

export function reasonText(reason: Schemas["Reason"] | undefined): string | undefined {
  if (!reason) return undefined;
  // The state says already that the broker refused; its own words say why.
  if (reason.code === "BROKER_REFUSED") return reason.broker_text ?? reason.broker_code ?? reason.code;
  const broker = [reason.broker_code, reason.broker_text].filter(Boolean).join(" ");
  return broker ? `${reason.code}: ${broker}` : reason.code;
}

type Order = Schemas["Order"];
type OrderFields = Omit<Order, "account_id" | "created_at" | "updated_at" | "broker_order_ids">;

function fieldsOf(order: OrderFields) {
  return {
    symbol: order.symbol,
    side: order.order_side,
    type: order.order_type,
    timeInForce: order.time_in_force,
    quantity: order.quantity,
    filled: order.filled_quantity,
    limit: order.limit_price,
    stop: order.stop_price,
    average: order.average_price,
    pending: order.pending === "NONE" ? undefined : order.pending,
    state: stateOf(order.status, order.certainty, order.filled_quantity),
  };
}

export function rowOfOrder(order: Order): Row {
  return {
    ...fieldsOf(order),
    id: order.intent_id,
    account: order.account_id,
    at: order.created_at,
    updated: order.updated_at,
    isRefusal: false,
    reason: reasonText(order.reason),
    changes: 0,
    changedAt: 0,
  };
}

/** The id of the row that an event is about; undefined if it is about none. */
export function idOf(event: StreamEvent): string | undefined {
  if (event.broker_order) return event.broker_order.intent_id;
  if (event.intent_action) return event.intent_action.intent_id;
  return event.intent_refused?.receipt_id;
}

/**
 * The row after an event, or the same object if the event changes nothing. Undefined if there is no row before and the
 * event does not have the terms of one.
 */
export function afterEvent(before: Row | undefined, event: StreamEvent, now: number): Row | undefined {
  const changed = change(before, event);
  if (!changed) return before;
  const updated = event.occurred_at ?? before?.updated ?? "";
  return { ...changed, updated, changes: (before?.changes ?? 0) + 1, changedAt: now };
}

const blank = { filled: "0", updated: "", changes: 0, changedAt: 0 };

function change(before: Row | undefined, event: StreamEvent): Row | undefined {
  if (event.broker_order) return ofOrder(before, event, event.broker_order);
  if (event.intent_action) return ofAction(before, event, event.intent_action);
  if (event.intent_refused && !before) return ofRefusal(event, event.intent_refused);
  return undefined;
}

function ofOrder(before: Row | undefined, event: StreamEvent, order: Schemas["BrokerOrder"]): Row {
  const id = order.intent_id;
  return {
    ...(before ?? { ...blank, at: timeOfId(id), isRefusal: false }),
    ...fieldsOf(order),
    id,
    account: event.account_id,
    reason: reasonText(order.reason) ?? before?.reason,
  };
}

function ofAction(before: Row | undefined, event: StreamEvent, action: Schemas["IntentAction"]): Row | undefined {
  const isUnknown = action.status === "UNKNOWN";
  const reason = reasonText(action.reason);
  if (action.action_type !== "CREATE") {
    if (!before) return undefined;
    if (isUnknown) return { ...before, state: "UNKNOWN", reason: reason ?? before.reason };
    const pending = action.status === "QUEUED" ? action.action_type : undefined;
    return pending ? { ...before, pending } : undefined;
  }
  const { symbol, order_side, order_type, quantity, time_in_force } = action;
  if (!before) {
    if (!symbol || !order_side || !order_type || !quantity || !time_in_force) return undefined;
    return {
      ...blank,
      id: action.intent_id,
      account: event.account_id,
      at: event.occurred_at ?? timeOfId(action.intent_id),
      isRefusal: false,
      symbol,
      side: order_side,
      type: order_type,
      timeInForce: time_in_force,
      quantity,
      limit: action.limit_price,
      stop: action.stop_price,
      state: stateOfAction(action.status),
      reason,
    };
  }
  // An order that was reported is ahead of its action.
  const isReported = !["QUEUED", "SENDING", "UNKNOWN"].includes(before.state);
  if (isReported && !isUnknown) return reason ? { ...before, reason } : undefined;
  return { ...before, state: stateOfAction(action.status), reason: reason ?? before.reason };
}

function ofRefusal(event: StreamEvent, refused: Schemas["IntentRefused"]): Row {
  return {
    ...blank,
    id: refused.receipt_id,
    account: event.account_id,
    at: event.occurred_at ?? timeOfId(refused.receipt_id),
    isRefusal: true,
    symbol: refused.symbol,
    side: refused.order_side,
    type: refused.order_type,
    timeInForce: refused.time_in_force,
    quantity: refused.quantity,
    limit: refused.limit_price,
    stop: refused.stop_price,
    state: "REFUSED",
    reason: refused.codes.join(", "),
  };
}
