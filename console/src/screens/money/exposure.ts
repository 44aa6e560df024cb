/** What is held by symbol, and what it would be if every working order filled. Money of different currencies is never added. */
import type { Schemas } from "@openbell/client";
import type { Row } from "../../live/rows";
import { compare, isNegative, isZero, multiply, negate, sum } from "../../text/decimal";

type Position = Schemas["Position"];

export interface Exposure {
  symbol: string;
  currency: string;
  /** Held, and the sums of working buys and sells; each without a sign. */
  long: string;
  short: string;
  buys: string;
  sells: string;
  /** True if something of it has no price, and is left out. */
  lacksPrice: boolean;
}

const absolute = (text: string): string => (isNegative(text) ? negate(text) : text);

/** The value at which a working order counts: at its limit, else its stop, else the market's price. */
function valueOf(row: Row, market: string | undefined): string | undefined {
  const price = row.limit ?? row.stop ?? market;
  return price === undefined ? undefined : multiply(sum([row.quantity, negate(row.filled)]), price);
}

export function exposures(positions: readonly Position[], working: readonly Row[], base: string): Exposure[] {
  const found = new Map<string, Exposure>();
  const of = (symbol: string): Exposure => {
    const known = found.get(symbol);
    if (known) return known;
    const currency = positions.find((each) => each.symbol === symbol)?.currency ?? base;
    const made = { symbol, currency, long: "0", short: "0", buys: "0", sells: "0", lacksPrice: false };
    found.set(symbol, made);
    return made;
  };
  for (const { symbol, quantity, market_value } of positions) {
    if (isZero(quantity)) continue;
    const exposure = of(symbol);
    if (market_value === undefined) exposure.lacksPrice = true;
    else exposure[isNegative(quantity) ? "short" : "long"] = absolute(market_value);
  }
  for (const row of working) {
    const exposure = of(row.symbol);
    const value = valueOf(row, positions.find(({ symbol }) => symbol === row.symbol)?.market_price);
    const side = row.side === "BUY" ? "buys" : "sells";
    if (value === undefined) exposure.lacksPrice = true;
    else exposure[side] = sum([exposure[side], value]);
  }
  return [...found.values()].sort((a, b) => compare(largest(b), largest(a)) || a.symbol.localeCompare(b.symbol));
}

/** What is long, or short, if every working order of that side fills and none of the other. */
export const worstLong = ({ long, short, buys }: Exposure): string => positive(sum([long, negate(short), buys]));
export const worstShort = ({ long, short, sells }: Exposure): string => positive(sum([short, negate(long), sells]));

const positive = (text: string): string => (isNegative(text) ? "0" : text);

export function largest(exposure: Exposure): string {
  const [long, short] = [worstLong(exposure), worstShort(exposure)];
  return compare(long, short) >= 0 ? long : short;
}

export interface Total {
  currency: string;
  long: string;
  short: string;
  worstLong: string;
  worstShort: string;
}

export function totals(all: readonly Exposure[]): Total[] {
  return [...Map.groupBy(all, ({ currency }) => currency)].map(([currency, of]) => ({
    currency,
    long: sum(of.map(({ long }) => long)),
    short: sum(of.map(({ short }) => short)),
    worstLong: sum(of.map(worstLong)),
    worstShort: sum(of.map(worstShort)),
  }));
}
