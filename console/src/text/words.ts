/** Words for the values of the API. */

export const STATES = [
  "UNKNOWN",
  "QUEUED",
  "SENDING",
  "WORKING",
  "PARTIAL",
  "FILLED",
  "REFUSED",
  "FAILED",
  "CANCELED",
  "EXPIRED",
  "SKIPPED",
] as const;

/** What became of a command or an order, as the pages show it. */
export type State = (typeof STATES)[number];

const WORDS: Record<State, string> = {
  UNKNOWN: "Unknown",
  QUEUED: "Queued",
  SENDING: "Sending",
  WORKING: "Working",
  PARTIAL: "Part filled",
  FILLED: "Filled",
  REFUSED: "Refused",
  FAILED: "Failed",
  CANCELED: "Canceled",
  EXPIRED: "Expired",
  SKIPPED: "Skipped",
};

export const stateWord = (state: State): string => WORDS[state];

/** States of orders that may still fill. */
export const OPEN_STATES: ReadonlySet<State> = new Set(["UNKNOWN", "QUEUED", "SENDING", "WORKING", "PARTIAL"]);

const TIMES_IN_FORCE: Record<string, string> = {
  GOOD_TILL_CANCEL: "GTC",
  IMMEDIATE_OR_CANCEL: "IOC",
  FILL_OR_KILL: "FOK",
  AT_OPEN: "OPEN",
  AT_CLOSE: "CLOSE",
};

export const timeInForce = (value: string): string => TIMES_IN_FORCE[value] ?? value;

const SIDES: Record<string, string> = { BUY: "Buy", SELL: "Sell", SELL_SHORT: "Short" };

export const sideWord = (side: string): string => SIDES[side] ?? side;

/** "stop limit" of STOP_LIMIT. */
export const plain = (value: string): string => value.toLowerCase().replaceAll("_", " ");

export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** "1 order", "2 orders", "1,234 orders". */
export function count(number: number, one: string, many = `${one}s`): string {
  return `${number.toLocaleString("en-US")} ${number === 1 ? one : many}`;
}

/** "once", "twice", "3 times". */
export function times(number: number): string {
  if (number === 1) return "once";
  return number === 2 ? "twice" : `${number.toLocaleString("en-US")} times`;
}
