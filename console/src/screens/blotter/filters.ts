/** The filters of the blotter: in the address, as questions to the server, and as a test of a row. */
import type { OrderFilters } from "@openbell/client";
import type { Row } from "../../live/rows";
import { OPEN_STATES, STATES, type State } from "../../text/words";

export interface Filters {
  states: ReadonlySet<State>;
  symbol: string;
  side: "" | "BUY" | "SELL" | "SELL_SHORT";
  account: string;
}

const SIDES = ["BUY", "SELL", "SELL_SHORT"] as const;
const SYMBOL = /^[A-Za-z0-9.\-/:_]{1,32}$/;

/** What the address says; what it says wrongly is left out. */
export function filtersOf(query: URLSearchParams): Filters {
  const wanted = (query.get("state") ?? "").toUpperCase().split(",");
  const symbol = query.get("symbol") ?? "";
  const side = query.get("side")?.toUpperCase();
  return {
    states: new Set(STATES.filter((state) => wanted.includes(state))),
    symbol: SYMBOL.test(symbol) ? symbol.toUpperCase() : "",
    side: SIDES.find((each) => each === side) ?? "",
    account: query.get("account") ?? "",
  };
}

/** The value of `state` in the address after one state was switched. */
export function toggled(states: ReadonlySet<State>, state: State): string {
  const chosen = new Set(states);
  if (!chosen.delete(state)) chosen.add(state);
  return STATES.filter((each) => chosen.has(each))
    .join()
    .toLowerCase();
}

/** Whether a row is of the account, the symbol and the side. */
export function isInScope(row: Row, { symbol, side, account }: Filters): boolean {
  if (account && row.account !== account) return false;
  if (symbol && row.symbol !== symbol) return false;
  return !side || row.side === side;
}

export const isShown = (row: Row, { states }: Filters): boolean => !states.size || states.has(row.state);

/** The part of the filters that every list of the screen asks the server for. */
export function scopeQuery({ symbol, side, account }: Filters): OrderFilters {
  return {
    order: "desc",
    ...(account && { account_id: account }),
    ...(symbol && { symbol }),
    ...(side && { order_side: side }),
  };
}

/**
 * What to ask for, so that old orders of these states are found without reading all others; undefined if the newest
 * orders of all states are what is wanted.
 */
export function statusQuery(states: ReadonlySet<State>): OrderFilters | undefined {
  if (!states.size) return undefined;
  if (states.size === 1 && states.has("UNKNOWN")) return { certainty: "UNKNOWN" };
  const open = [...states].filter((state) => OPEN_STATES.has(state)).length;
  if (open === states.size) return { status: "WORKING" };
  return open ? undefined : { status: "CLOSED" };
}

export const hasFilters = ({ states, symbol, side }: Filters): boolean => states.size > 0 || !!symbol || !!side;
