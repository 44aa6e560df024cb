import assert from "node:assert/strict";
import test from "node:test";
import { afterEvent, type Row, rowOfOrder, stateOf, type StreamEvent } from "./things";

const ACCOUNT = "01981d3c-7a00-7000-8000-000000000002";
const INTENT = "01a1f641-9efb-7ef6-8499-cad38b608927";
let seq = 0;
const event = (body: object): StreamEvent =>
  ({ account_id: ACCOUNT, account_seq: ++seq, occurred_at: `2026-11-20T00:00:0${seq}Z`, ...body }) as StreamEvent;
const terms = { symbol: "AAPL", order_side: "BUY", order_type: "LIMIT", quantity: "0.000000000000000001", time_in_force: "DAY", limit_price: "187.50" };
const action = (status: string, more = {}) =>
  event({ type: "INTENT_ACTION", intent_action: { intent_id: INTENT, seq: 1, action_id: "a", action_type: "CREATE", status, ...more } });
const order = (status: string, more = {}) =>
  event({
    type: "BROKER_ORDER",
    broker_order: { ...terms, intent_id: INTENT, client_order_id: "c", status, pending: "NONE", certainty: "CONFIRMED", filled_quantity: "0", leaves_quantity: "1", ...more },
  });
const after = (...events: StreamEvent[]) => events.reduce<Row | undefined>((row, each) => afterEvent(row, each, 1), undefined);

test("the event of a CREATE is enough for a row, with its exact terms", () => {
  const row = after(action("QUEUED", terms));
  assert.deepEqual([row?.state, row?.symbol, row?.quantity, row?.limit], ["QUEUED", "AAPL", "0.000000000000000001", "187.50"]);
});

test("an event without terms makes no row", () => {
  assert.equal(after(action("ACKED")), undefined);
});

test("an order that was reported is ahead of the answer to its command", () => {
  assert.equal(after(action("QUEUED", terms), order("FILLED"), action("ACKED"))?.state, "FILLED");
});

test("an unknown outcome is shown until an event settles it", () => {
  assert.equal(after(action("QUEUED", terms), action("UNKNOWN"))?.state, "UNKNOWN");
  assert.equal(after(action("QUEUED", terms), action("UNKNOWN"), action("FAILED"))?.state, "FAILED");
  assert.equal(after(order("NEW"), order("NEW", { certainty: "UNKNOWN" }))?.state, "UNKNOWN");
  assert.equal(after(order("NEW", { certainty: "UNKNOWN" }), order("CANCELED"))?.state, "CANCELED");
});

test("a refusal is a row of its own, with the codes of its rules", () => {
  const refused = event({ type: "INTENT_REFUSED", intent_refused: { ...terms, receipt_id: "r1", codes: ["QTY_MAX", "TICK"], action_type: "CREATE" } });
  const row = after(refused);
  assert.deepEqual([row?.id, row?.isRefusal, row?.state, row?.reason], ["r1", true, "REFUSED", "QTY_MAX, TICK"]);
});

test("an event changes the row by identity, and an event of no change keeps it", () => {
  const before = after(order("NEW")) as Row;
  assert.notEqual(afterEvent(before, order("FILLED"), 2), before);
  assert.equal(afterEvent(before, event({ type: "BALANCES_CHANGED" }), 2), before);
});

test("the state of an order is that of its status, and of its fills while a command is pending", () => {
  assert.equal(stateOf("PENDING_CANCEL", "CONFIRMED", "0"), "WORKING");
  assert.equal(stateOf("PENDING_REPLACE", "CONFIRMED", "0.5"), "PARTIAL");
  assert.equal(stateOf("NEW", "UNKNOWN", "0"), "UNKNOWN");
});

test("the broker's words are the reason of its refusal", () => {
  const row = rowOfOrder({
    ...terms, intent_id: INTENT, client_order_id: "c", status: "REJECTED", pending: "NONE", certainty: "CONFIRMED", filled_quantity: "0", leaves_quantity: "0",
    account_id: ACCOUNT, created_at: "2026-11-20T00:00:00Z", updated_at: "2026-11-20T00:00:00Z", broker_order_ids: [],
    reason: { code: "BROKER_REFUSED", broker_code: "unknown_symbol", broker_text: "APPL is not listed" },
  } as never);
  assert.equal(row.reason, "APPL is not listed");
});
