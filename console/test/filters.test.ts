import assert from "node:assert/strict";
import test from "node:test";
import { filtersOf, isInScope, isShown, scopeQuery, statusQuery, toggled } from "../src/screens/blotter/filters";
import type { Row } from "./things";

const of = (text: string) => filtersOf(new URLSearchParams(text));
const row = { symbol: "AAPL", side: "SELL_SHORT", account: "a", state: "WORKING" } as Row;

test("the address has the filters, and what it says wrongly is left out", () => {
  const filters = of("state=unknown,filled,nonsense&symbol=brk.b&side=sell&account=a");
  assert.deepEqual([[...filters.states], filters.symbol, filters.side, filters.account], [["UNKNOWN", "FILLED"], "BRK.B", "SELL", "a"]);
  assert.deepEqual([of("symbol=%3Cscript%3E").symbol, of("side=both").side, of("").states.size], ["", "", 0]);
});

test("a state is switched on and off, in a fixed order", () => {
  assert.equal(toggled(of("state=filled").states, "UNKNOWN"), "unknown,filled");
  assert.equal(toggled(of("state=unknown,filled").states, "FILLED"), "unknown");
  assert.equal(toggled(of("state=unknown").states, "UNKNOWN"), "");
});

test("what the address has comes out of it again", () => {
  const states = of("state=unknown,refused").states;
  assert.deepEqual(of(`state=${[...states].join().toLowerCase()}`).states, states);
});

test("a row is of the scope if its account, symbol and side are", () => {
  assert.equal(isInScope(row, of("side=sell_short")), true);
  assert.equal(isInScope(row, of("side=sell")), false);
  assert.equal(isInScope(row, of("symbol=AAPL&account=a")), true);
  assert.equal(isInScope(row, of("account=b")), false);
});

test("without a state every row is shown", () => {
  assert.equal(isShown(row, of("")), true);
  assert.equal(isShown(row, of("state=filled")), false);
});

test("the server is asked for what the browser may not have", () => {
  assert.equal(statusQuery(of("").states), undefined);
  assert.deepEqual(statusQuery(of("state=unknown").states), { certainty: "UNKNOWN" });
  assert.deepEqual(statusQuery(of("state=unknown,working").states), { status: "WORKING" });
  assert.deepEqual(statusQuery(of("state=filled,refused").states), { status: "CLOSED" });
  assert.equal(statusQuery(of("state=filled,working").states), undefined);
  assert.deepEqual(scopeQuery(of("symbol=msft&side=buy&account=a")), { order: "desc", account_id: "a", symbol: "MSFT", order_side: "BUY" });
});
