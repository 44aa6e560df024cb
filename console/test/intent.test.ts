import assert from "node:assert/strict";
import test from "node:test";
import { withEvent } from "../src/screens/intent/merge";
import { type Subject, refusalSentence, sentenceOf } from "../src/screens/intent/sentence";
import { type History, timelineOf } from "../src/screens/intent/steps";
import { judgementOf, roomOf, valueText } from "../src/screens/receipt/lines";

const execution = (status: string, more = {}) =>
  ({ status, certainty: "CONFIRMED", filled_quantity: "0", leaves_quantity: "10", broker_order_ids: [], updated_at: "", ...more }) as Subject["execution"];
const say = (status: string, more = {}, action: object = { status: "ACKED" }) =>
  sentenceOf({ execution: execution(status, more), quantity: "10", actions: [{ action_type: "CREATE", ...action }] as never });
const unknown = (more = {}) => ({
  certainty: "UNKNOWN",
  unknown: { since: "", probes: [], candidates: [], writes: 1, settles_by: "A report.", ...more },
});

test("a filled order is said with its exact numbers and the broker's order", () => {
  const said = say("FILLED", { filled_quantity: "0.000000000000000001", average_price: "123456789012345678.5", broker_order_ids: ["P1"] });
  assert.equal(said.text, "Filled completely: 0.000000000000000001 of 10 filled at an average of 123,456,789,012,345,678.50 as the broker's order P1.");
});

test("no sentence claims a look-up that was not made", () => {
  const action = { status: "UNKNOWN" };
  assert.match(say("UNKNOWN", unknown(), action).text, /No look-up at the broker was made yet\.$/);
  assert.match(say("UNKNOWN", unknown({ probes: [{ at: "", found: false }] }), action).text, /1 look-up did not show it\.$/);
  assert.match(say("UNKNOWN", unknown({ probes: [{ at: "", found: false }, { at: "", found: true }] }), action).text, /1 look-up of 2 showed it\.$/);
  assert.doesNotMatch(say("UNKNOWN", { certainty: "UNKNOWN" }, action).text, /look-up/);
  for (const status of ["FAILED", "SKIPPED", "REJECTED", "CANCELED", "PENDING_NEW"]) {
    assert.doesNotMatch(say(status, {}, { status: "FAILED", reason: { code: "NOT_AT_BROKER" } }).text, /look-up|asked/);
  }
});

test("the command that is in doubt is named", () => {
  const said = sentenceOf({
    execution: execution("NEW", unknown()),
    quantity: "10",
    actions: [{ action_type: "CREATE", status: "ACKED" }, { action_type: "CANCEL", status: "UNKNOWN" }] as never,
  });
  assert.match(said.text, /answer to the CANCEL is not known\. It may or may not have taken the cancel\./);
});

test("a queued command is not said to be sent", () => {
  assert.match(say("PENDING_NEW", {}, { status: "QUEUED" }).text, /not sent to the broker yet/);
  assert.match(say("PENDING_NEW", {}, { status: "DISPATCHING" }).text, /being sent/);
});

test("the broker's refusal has its own words, and what was filled before", () => {
  const said = say("REJECTED", {}, { status: "REFUSED", reason: { code: "BROKER_REFUSED", broker_text: "APPL is not listed" } });
  assert.equal(said.text, "The broker refused it: “APPL is not listed”. Nothing was filled.");
});

test("a refusal names its rules and what would pass", () => {
  const rule = { code: "QTY_MAX", verdict: "REFUSED", would_pass: "a quantity of at most 500" };
  const said = refusalSentence({ gate: "ACCEPT", rules: [rule, { code: "TICK", verdict: "PASSED" }] } as never);
  assert.equal(said.text, "QTY_MAX refused it when it was submitted. Nothing was recorded or sent. What would pass: a quantity of at most 500.");
});

test("a rule without its input is not judged, whatever its verdict", () => {
  const rule = { comparison: "AT_MOST", limit: "500", observed: null, missing: "the price", mode: "HARD" };
  assert.equal(judgementOf({ ...rule, verdict: "PASSED" } as never, undefined).word, "not judged: the price is missing; let pass");
  assert.match(judgementOf({ ...rule, verdict: "REFUSED" } as never, undefined).word, /^not judged.*refused$/);
  assert.equal(roomOf(rule as never), undefined);
});

test("the room is exact, and its bar goes past the limit", () => {
  const rule = { comparison: "AT_MOST", limit: "500", observed: "900.10", headroom: "-400.10" };
  assert.deepEqual(roomOf(rule as never), { part: 1800, text: "400.10 over" });
  assert.deepEqual(roomOf({ ...rule, observed: "25", headroom: "475" } as never), { part: 50, text: "475 left" });
  assert.equal(valueText("999999999999999999.000000000000000001"), "999,999,999,999,999,999.000000000000000001");
});

const history: History = {
  actions: [{ seq: 1, action_type: "CREATE", status: "ACKED", principal_type: "API_KEY", principal_id: "k", created_at: "2026-11-20T00:00:00.100000Z", dispatched_at: "2026-11-20T00:00:00.200000Z", settled_at: "2026-11-20T00:00:00.300000Z" }] as never,
  receipts: [],
  executions: [{ execution_id: "P1-1", kind: "NORMAL", quantity: "10", price: "1", executed_at: "2026-11-20T00:00:00.250000Z", recorded_at: "2026-11-20T00:00:00.310000Z" }] as never,
  events: [],
  unknown: undefined,
};

test("every step that the broker timed has the mark of its clock, and no other step has it", () => {
  const steps = timelineOf(history);
  assert.deepEqual(steps.map(({ clock }) => clock), ["openbell", "openbell", "broker", "openbell"]);
  for (const step of steps) assert.equal(step.clock === "broker", step.at.endsWith("250000Z"));
});

test("steps within one millisecond keep their order to the microsecond", () => {
  const times = ["2026-11-20T00:00:00.100900Z", "2026-11-20T00:00:00.100100Z"];
  const steps = timelineOf({ ...history, actions: [], executions: [], unknown: { probes: times.map((at) => ({ at, found: false })) } as never });
  assert.deepEqual(steps.map(({ at }) => at), times.toReversed());
});

test("an event changes the intent once", () => {
  const intent = { execution: execution("NEW"), executions: [], events: [], actions: [], receipts: [] } as never;
  const trade = { event_id: "a.1", account_id: "a", occurred_at: "t", broker_trade: { execution_id: "P1-1", kind: "NORMAL", quantity: "4", price: "1", executed_at: "e" } } as never;
  const after = withEvent(withEvent(intent, trade), trade);
  assert.deepEqual([after.executions.map(({ quantity }) => quantity), after.events.length], [["4"], 1]);
  const ended = withEvent(after, { event_id: "a.2", occurred_at: "t", broker_order: { status: "FILLED", certainty: "CONFIRMED", filled_quantity: "4", leaves_quantity: "0" } } as never);
  assert.deepEqual([ended.execution.status, ended.execution.filled_quantity], ["FILLED", "4"]);
});
