import type { Schemas } from "@openbell/client";
import { isDecimal, grouped, price } from "../../text/decimal";
import { plain } from "../../text/words";

type LogEvent = Schemas["Event"];

export const TYPES = [
  "INTENT_ACTION",
  "BROKER_ORDER",
  "BROKER_TRADE",
  "INTENT_REFUSED",
  "CONTROL_CHANGED",
  "ACCOUNT_CHANGED",
  "POSITION_ADJUSTED",
  "BALANCES_CHANGED",
  "LOSS_LIMIT_EXCEEDED",
  "EXTERNAL_ORDER",
] as const;

export interface Filters {
  types: readonly string[];
  symbol: string;
  intent: string;
  /** Only events after this number; 0 for all. */
  from: number;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

export function filtersOf(query: URLSearchParams): Filters {
  const asked = (query.get("type") ?? "").toUpperCase().split(",");
  const symbol = query.get("symbol") ?? "";
  const intent = query.get("intent") ?? "";
  const from = query.get("from") ?? "";
  return {
    types: TYPES.filter((each) => asked.includes(each)),
    symbol: /^[A-Za-z0-9.\-/:_]{1,32}$/.test(symbol) ? symbol.toUpperCase() : "",
    intent: UUID.test(intent) ? intent.toLowerCase() : "",
    from: /^\d{1,15}$/.test(from) ? Number(from) : 0,
  };
}

/** The part of the event that is named after its type. */
export function detailsOf(event: LogEvent): Record<string, unknown> {
  return (event as unknown as Record<string, Record<string, unknown>>)[event.type.toLowerCase()] ?? {};
}

export const intentOf = (event: LogEvent): string | undefined => detailsOf(event).intent_id as string | undefined;
export const symbolOf = (event: LogEvent): string | undefined => detailsOf(event).symbol as string | undefined;

/** As the server filters: events without a symbol are of every symbol. */
export function isShown(event: LogEvent, { types, symbol, intent, from }: Filters): boolean {
  if (event.account_seq <= from || (types.length && !types.includes(event.type))) return false;
  if (intent && intentOf(event) !== intent) return false;
  const of = symbolOf(event);
  return !symbol || of === undefined || of === symbol;
}

const number = (value: unknown): string => (isDecimal(value) ? grouped(value) : "");
const reasonOf = (value: { code: string } | undefined): string => (value ? `, ${value.code}` : "");

/** What the event says, in a few words. */
export function summary(event: LogEvent): string {
  const { intent_action, broker_order, broker_trade, intent_refused, control_changed, account_changed } = event;
  if (intent_action) {
    const { action_type, seq, status, reason, order_side, quantity, symbol } = intent_action;
    const terms = quantity ? `: ${plain(order_side ?? "")} ${number(quantity)} ${symbol ?? ""}` : "";
    return `command ${seq} ${plain(action_type)} ${plain(status)}${reasonOf(reason)}${terms}`;
  }
  if (broker_order) {
    const { status, filled_quantity, quantity, order_side, certainty, reason } = broker_order;
    const doubt = certainty === "UNKNOWN" ? ", in doubt" : "";
    return `order ${plain(status)}${doubt}: ${plain(order_side)} ${number(filled_quantity)} of ${number(quantity)}${reasonOf(reason)}`;
  }
  if (broker_trade) {
    const { kind, order_side, quantity, price: at, position } = broker_trade;
    return `${kind === "NORMAL" ? "trade" : plain(kind)}: ${plain(order_side)} ${number(quantity)} at ${price(at)}, position ${number(position)}`;
  }
  if (intent_refused) {
    const { codes, action_type, order_side, quantity } = intent_refused;
    return `refused by ${codes.join(", ")}: ${plain(action_type)} ${plain(order_side)} ${number(quantity)}`;
  }
  if (control_changed) {
    const { scope, code, change, status, reason } = control_changed;
    return `${plain(scope)} ${code} ${plain(change)}${status ? ` to ${plain(status)}` : ""}${reason ? `, because “${reason}”` : ""}`;
  }
  if (account_changed) {
    const { changed, credential_status, reason } = account_changed;
    const what = changed?.length ? changed.join(", ") : `credential ${plain(credential_status ?? "")}`;
    return `${what}${reasonOf(reason)}`;
  }
  return others(event);
}

function others({ position_adjusted, balances_changed, loss_limit_exceeded, external_order }: LogEvent): string {
  if (position_adjusted) {
    return `position ${number(position_adjusted.before)} became ${number(position_adjusted.after)}, ${plain(position_adjusted.cause)}`;
  }
  if (balances_changed) return `cash ${price(balances_changed.cash ?? "–")} ${balances_changed.currency}`;
  if (loss_limit_exceeded) {
    return `lost ${price(loss_limit_exceeded.loss)} of ${price(loss_limit_exceeded.limit)} ${loss_limit_exceeded.currency}`;
  }
  if (external_order) return `order not sent through Openbell: ${plain(external_order.status)} ${external_order.broker_order_id}`;
  return "";
}
