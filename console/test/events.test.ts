import assert from "node:assert/strict";
import test from "node:test";
import { filtersOf, isShown, summary } from "../src/screens/events/filters";
import { missingBetween } from "../src/screens/events/gaps";

test("a missing range has its first and last number and the reason that the server gave", () => {
  assert.deepEqual(missingBetween([10, 9, 5, 4]), [{ first: 6, last: 8, reason: "" }]);
  const known = [{ first: 6, last: 8, reason: "RETENTION" }];
  assert.deepEqual(missingBetween([10, 9, 5], known), known);
  assert.deepEqual(missingBetween([3, 2, 1]), []);
});

test("what the address says wrongly is left out of the filters", () => {
  const filters = filtersOf(new URLSearchParams("type=broker_trade,nonsense&symbol=aapl&intent=x&from=-1"));
  assert.deepEqual(filters, { types: ["BROKER_TRADE"], symbol: "AAPL", intent: "", from: 0 });
});

test("an event without a symbol is of every symbol, as the server filters", () => {
  const filters = { types: [], symbol: "AAPL", intent: "", from: 4 };
  const event = (fields: object) => ({ account_seq: 5, ...fields }) as never;
  assert.equal(isShown(event({ type: "ACCOUNT_CHANGED", account_changed: {} }), filters), true);
  assert.equal(isShown(event({ type: "BROKER_TRADE", broker_trade: { symbol: "MSFT" } }), filters), false);
  assert.equal(isShown(event({ account_seq: 4, type: "ACCOUNT_CHANGED" }), filters), false);
});

test("a trade is summed up with its exact digits", () => {
  const trade = { kind: "NORMAL", order_side: "BUY", quantity: "0.000000000000000001", price: "5", position: "1234" };
  assert.equal(summary({ type: "BROKER_TRADE", broker_trade: trade } as never), "trade: buy 0.000000000000000001 at 5.00, position 1,234");
});
