import assert from "node:assert/strict";
import test from "node:test";
import { readCommands, submitCommands, type Terms } from "../src/screens/intent/commands";

const QUANTITY = "0.000000000000000001";
const PRICE = "999999999999999999.5";
const terms: Terms = { account: "acc", symbol: "BRK.B", side: "SELL", type: "LIMIT", quantity: QUANTITY, timeInForce: "GOOD_TILL_CANCEL", limit: PRICE, key: "key-1" };

test("the numbers of the order are in every language digit for digit", () => {
  const texts = submitCommands(terms);
  assert.deepEqual(Object.keys(texts), ["CLI", "curl", "Python", "TypeScript"]);
  for (const text of Object.values(texts)) for (const part of [QUANTITY, PRICE, "BRK.B", "SELL", "acc"]) assert.ok(text.includes(part), text);
});

test("the body of curl is the command that the API takes", () => {
  const body = (more: Partial<Terms>) => JSON.parse(/-d '(.*)'$/.exec(submitCommands({ ...terms, ...more }).curl ?? "")?.[1] ?? "");
  assert.deepEqual(body({}), {
    command: { type: "CREATE", payload: { symbol: "BRK.B", order_side: "SELL", spec: { Limit: { price: PRICE, quantity: QUANTITY, time_in_force: "GOOD_TILL_CANCEL" } } } },
  });
  const spec = body({ type: "STOP_LIMIT", stop: "5" }).command.payload.spec;
  assert.deepEqual(spec, { StopLimit: { stop_price: "5", price: PRICE, quantity: QUANTITY, time_in_force: "GOOD_TILL_CANCEL" } });
});

test("a command that submits has a key, so that running it twice trades once", () => {
  assert.match(submitCommands(terms).curl ?? "", /Idempotency-Key: key-1"/);
});

test("reading names the account and the intent", () => {
  for (const text of Object.values(readCommands("acc", "int-1"))) assert.ok(text.includes("acc") && text.includes("int-1"), text);
});
