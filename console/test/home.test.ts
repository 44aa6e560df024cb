import assert from "node:assert/strict";
import test from "node:test";
import { FillTimes, OpenOrders } from "../src/screens/home/counts";
import { headline, verdictOf } from "../src/screens/home/verdict";

const event = (fields: object) => ({ account_id: "a", ...fields }) as never;
const action = (intent_id: string, status: string) =>
  event({ intent_action: { intent_id, action_type: "CREATE", status } });
const order = (intent_id: string, status: string) => event({ broker_order: { intent_id, status } });

function counted(open: number, ...events: never[]): number {
  const orders = new OpenOrders();
  orders.reset([{ account_id: "a", open_orders: open }] as never);
  for (const each of events) orders.apply(each);
  return orders.of("a");
}

test("a recorded order is open until it ends, and its later events change nothing", () => {
  assert.equal(counted(0, action("1", "QUEUED")), 1);
  assert.equal(counted(0, action("1", "QUEUED"), order("1", "NEW"), order("1", "FILLED"), action("1", "ACKED")), 0);
  assert.equal(counted(0, action("1", "QUEUED"), action("1", "SKIPPED")), 0);
});

test("an order that was open when the overview was read leaves the count when it ends", () => {
  assert.equal(counted(3, order("old", "CANCELED")), 2);
  assert.equal(counted(3, order("old", "PARTIALLY_FILLED")), 3);
  assert.equal(counted(3, order("old", "FILLED"), order("old", "FILLED")), 2);
});

test("fills are counted by minute, and the last one of an account is kept", () => {
  const fills = new FillTimes();
  const at = (second: number) => new Date(Date.UTC(2026, 0, 1, 10, 0, second)).toISOString();
  fills.reset([{ account_id: "a", recorded_at: at(59) }, { account_id: "a", recorded_at: at(1) }], true);
  fills.add("b", at(61));
  const now = Date.parse(at(62));
  assert.deepEqual(fills.byMinute(now).slice(-2), [2, 1]);
  assert.equal(fills.lastMinute(now), 2);
  assert.equal(fills.last("a"), at(59));
  assert.equal(fills.last("c"), undefined);
});

const facts = {
  accounts: [],
  overviews: [],
  unknown: [],
  switches: [],
  webhooks: [],
  refusals: [],
  now: Date.UTC(2026, 0, 1, 12),
};

test("the verdict puts orders in doubt before halts, and halts before refusals", () => {
  const items = verdictOf({
    ...facts,
    refusals: [["QTY_MAX", 2]],
    switches: [{ scope: "SYMBOL", account_id: "a", symbol: "TSLA", status: "HALTED", reason: "news" }] as never,
    unknown: ["2026-01-01T11:59:00Z"],
  });
  assert.deepEqual(items.map(({ level }) => level), ["doubt", "stop", "note"]);
  assert.equal(items[1]?.to, "/halt?scope=SYMBOL&account_id=a&symbol=TSLA&account=a");
  assert.equal(headline(items, 1), "2 things to look at, the worst first · 1 more to know");
});

test("a switch that is ACTIVE again is no halt", () => {
  assert.deepEqual(verdictOf({ ...facts, switches: [{ scope: "ACCOUNT", status: "ACTIVE" }] as never }), []);
  assert.match(headline([], 3), /^All well/);
});
