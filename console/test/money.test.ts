import assert from "node:assert/strict";
import test from "node:test";
import { type Exposure, exposures, totals, worstLong, worstShort } from "../src/screens/money/exposure";

const position = (symbol: string, quantity: string, market_value?: string, currency = "USD") =>
  ({ symbol, quantity, market_value, currency, market_price: "10" }) as never;
const order = (symbol: string, side: string, quantity: string, filled: string, limit?: string) =>
  ({ symbol, side, quantity, filled, limit }) as never;

test("working orders extend a position to its worst case on their side", () => {
  const [of = {} as Exposure] = exposures([position("AAPL", "5", "50")], [order("AAPL", "BUY", "10", "4", "2.5"), order("AAPL", "SELL", "7", "0")], "USD");
  assert.deepEqual([of.long, of.buys, of.sells], ["50", "15", "70"]);
  assert.equal(worstLong(of), "65");
  assert.equal(worstShort(of), "20");
});

test("a short position is worth what its quantity is worth, without a sign", () => {
  const [of] = exposures([position("TSLA", "-3", "-30.000000000000000001")], [], "USD");
  assert.equal(of?.short, "30.000000000000000001");
  assert.equal(of && worstLong(of), "0");
});

test("what has no price is left out and marked", () => {
  const [of] = exposures([position("X", "1")], [order("Y", "BUY", "1", "0")], "USD");
  assert.equal(of?.lacksPrice, true);
});

test("money of different currencies is not added", () => {
  const all = exposures([position("A", "1", "10"), position("B", "1", "20", "EUR")], [], "USD");
  assert.deepEqual(totals(all).map(({ currency, long }) => [currency, long]), [["EUR", "20"], ["USD", "10"]]);
});
