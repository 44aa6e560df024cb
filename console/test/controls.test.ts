import assert from "node:assert/strict";
import test from "node:test";
import { ruleCommands } from "../src/screens/controls/commands";
import { fieldsOf, parametersOf, text, typedOf } from "../src/screens/controls/schema";
import { differences, parametersText, termsKey, untilField, untilTime } from "../src/screens/controls/terms";

const DECIMAL = { type: "string", pattern: "^(0|[1-9][0-9]{0,17})(\\.[0-9]{1,18})?$", description: "a decimal string above 0" };
const QTY = fieldsOf({ properties: { quantity: DECIMAL }, required: ["quantity"] });
const RATE = fieldsOf({
  properties: {
    count: { type: "integer", minimum: 1, maximum: 1000 },
    window_millis: { type: "integer", minimum: 1, maximum: 3600000 },
  },
  required: ["count", "window_millis"],
});
const LIST = fieldsOf({
  properties: {
    list: { type: "string", enum: ["DENY", "ALLOW_ONLY"] },
    symbols: { type: "array", items: { type: "string" }, maxItems: 10000 },
  },
  required: ["list", "symbols"],
});
const SIDES = fieldsOf({
  properties: {
    sides: { type: "array", items: { type: "string", enum: ["BUY", "SELL"] }, default: ["BUY", "SELL"] },
    no_short: { type: "boolean", default: false },
  },
});

test("a decimal is sent as the text that was typed, with all its digits", () => {
  const typed = { quantity: "0.000000000000000001" };
  assert.deepEqual(parametersOf(QTY, typed), { parameters: typed, problems: {} });
  assert.ok(parametersOf(QTY, { quantity: "1e5" }).problems.quantity);
  assert.ok(parametersOf(QTY, { quantity: "1,000" }).problems.quantity);
});

test("a whole number is sent as a number within its bounds", () => {
  assert.deepEqual(parametersOf(RATE, { count: "100", window_millis: "60000" }).parameters, {
    count: 100,
    window_millis: 60000,
  });
  assert.equal(parametersOf(RATE, { count: "1001", window_millis: "1" }).problems.count, "Enter 1 to 1,000.");
  assert.ok(parametersOf(RATE, { count: "1.5", window_millis: "1" }).problems.count);
});

test("a field that is needed and empty is a problem, an optional one is left out", () => {
  assert.equal(parametersOf(QTY, { quantity: " " }).problems.quantity, "This is needed.");
  assert.deepEqual(parametersOf(SIDES, { sides: [], no_short: "" }), { parameters: {}, problems: {} });
  assert.deepEqual(parametersOf(SIDES, { sides: ["BUY"], no_short: "true" }).parameters, {
    sides: ["BUY"],
    no_short: true,
  });
});

test("a list is separated by commas, spaces or lines, and can be empty", () => {
  const typed = { list: "DENY", symbols: "GME, AMC\nBB" };
  assert.deepEqual(parametersOf(LIST, typed).parameters, { list: "DENY", symbols: ["GME", "AMC", "BB"] });
  assert.deepEqual(parametersOf(LIST, { list: "ALLOW_ONLY", symbols: "" }).parameters.symbols, []);
});

test("what is stored comes back from the form unchanged", () => {
  const stored = { list: "DENY", symbols: ["AMC", "GME"] };
  assert.deepEqual(parametersOf(LIST, typedOf(LIST, stored)).parameters, stored);
  const sides = { sides: ["SELL"], no_short: true };
  assert.deepEqual(parametersOf(SIDES, typedOf(SIDES, sides)).parameters, sides);
});

test("a long list is cut where it is shown", () => {
  assert.equal(text(["A", "B", "C", "D", "E", "F", "G", "H"]), "A, B, C, D, E, F and 2 more");
  assert.equal(parametersText({ quantity: "5000", currency: "USD" }), "quantity 5,000; currency USD");
});

test("only what differs is listed", () => {
  const before = { mode: "HARD", parameters: { quantity: "500" } } as const;
  assert.deepEqual(differences(before, { mode: "HARD", parameters: { quantity: "300" } }), [
    { name: "quantity", before: "500", after: "300" },
  ]);
  assert.deepEqual(differences(before, before), []);
  assert.deepEqual(differences(undefined, before).map(({ before: old }) => old), ["", ""]);
});

test("terms are the same in whatever order their parts are", () => {
  const one = { mode: "HARD", parameters: { list: "DENY", symbols: ["GME", "AMC"] } } as const;
  const other = { mode: "HARD", parameters: { symbols: ["AMC", "GME"], list: "DENY" } } as const;
  assert.equal(termsKey(one as never), termsKey(other as never));
  assert.notEqual(termsKey(one as never), termsKey({ ...one, mode: "SHADOW" } as never));
  assert.equal(
    termsKey({ ...one, expires_at: "2026-12-01T21:30:00Z" } as never),
    termsKey({ ...one, expires_at: "2026-12-01T21:30:00.000000Z" } as never),
  );
});

test("the time of temporary terms is in UTC on both sides of the form", () => {
  assert.equal(untilTime("2026-12-01T21:30"), "2026-12-01T21:30:00Z");
  assert.equal(untilField("2026-12-01T21:30:00Z"), "2026-12-01T21:30");
  assert.equal(untilTime(""), undefined);
});

test("the command line repeats a list, and has JSON where an option cannot say it", () => {
  const place = { scope: "ORGANIZATION" } as const;
  const terms = { mode: "SHADOW", parameters: { list: "DENY", symbols: ["GME", "AMC"] } } as const;
  assert.equal(
    ruleCommands(place, "RESTRICTED", terms as never, "restricted list", 2).CLI,
    "OPENBELL_ACCESS_TOKEN=$TOKEN openbell controls rules set RESTRICTED --list DENY --symbols GME --symbols AMC " +
      "--reason 'restricted list' --mode SHADOW --if-version 2 --organization",
  );
  const no = { mode: "HARD", parameters: { no_short: false, sides: ["BUY"] } } as const;
  assert.ok(ruleCommands(place, "SIDE_NOT_ALLOWED", no as never, "x", 0).CLI?.includes(`'{"no_short":false`));
  assert.ok(ruleCommands(place, "SIDE_NOT_ALLOWED", no as never, "x", 0).Python?.includes('{"no_short": False'));
});
