import assert from "node:assert/strict";
import test from "node:test";
import { addressOf, differences } from "../src/screens/audit/diff";
import { stateOf } from "../src/screens/keys/key";

test("only the fields that changed are shown, with their texts", () => {
  const found = differences('{"a":1,"b":"x","c":null}', '{"a":2,"b":"x","d":["y"]}');
  assert.deepEqual(found, [
    { name: "a", before: "1", after: "2" },
    { name: "c", before: "null", after: undefined },
    { name: "d", before: undefined, after: '["y"]' },
  ]);
});

test("a new object is shown with all that it has", () => {
  assert.deepEqual(differences(undefined, '{"name":"bot","expires_at":null}'), [{ name: "name", before: undefined, after: "bot" }]);
});

test("an entry leads to the screen of its object", () => {
  assert.equal(addressOf("keys create", "k1", "{}"), "/keys?key=k1");
  assert.equal(addressOf("credentials update", "c1", '{"account_id":"a1"}'), "/accounts?account=a1");
  assert.equal(addressOf("controls rule", "ACCOUNT a1 QTY_MAX", "{}"), "/controls?scope=ACCOUNT&account_id=a1&account=a1");
  assert.equal(addressOf("controls switch", "KEY k1 SWITCH", "{}"), "/halt?scope=KEY&api_key_id=k1&key=k1");
  assert.equal(addressOf("users disable", "u1", "{}"), undefined);
});

test("a key that has expired is not in use", () => {
  const key = { disabled: false, expires_at: "2026-01-01T00:00:00Z" } as never;
  assert.equal(stateOf(key, Date.UTC(2025, 0)), "in use");
  assert.equal(stateOf(key, Date.UTC(2026, 0)), "expired");
});
