import assert from "node:assert/strict";
import test from "node:test";
import { commandsOf, GROUPS, isSame, PRESETS, problemOf } from "../src/screens/chaos/faults";

test("rates of one kind of command may add up to exactly 100 %", () => {
  assert.equal(problemOf({ hang: 0.1, accept_then_hang: 0.2, refuse: 0.7 }), "");
  assert.match(problemOf({ hang: 0.6, refuse: 0.41 }), /add up to 101 %/);
  assert.equal(problemOf({ hang: 0.6, cancel_hang: 0.6 }), "");
});

test("every preset is a plan of known faults that is accepted", () => {
  const names = new Set(GROUPS.flatMap(({ faults }) => faults.map(({ name }) => name)));
  for (const [, plan] of PRESETS) {
    assert.ok(Object.keys(plan).every((name) => names.has(name)));
    assert.equal(problemOf(plan), "");
  }
});

test("plans are the same whatever the order of their faults", () => {
  assert.ok(isSame({ hang: 0.1, bust: 1 }, { bust: 1, hang: 0.1 }));
  assert.ok(!isSame({ hang: 0.1 }, {}));
});

test("the command of a plan without faults removes it", () => {
  assert.equal(commandsOf("a", {}, 0).CLI, "openbell paper mend --account a");
});
