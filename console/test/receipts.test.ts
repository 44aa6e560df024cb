import assert from "node:assert/strict";
import test from "node:test";
import { actionHash, headOf, hex, micros, Verification } from "../src/screens/receipts/verify";
// Two actions and a refusal of a platform, with the hashes that the command line computes.
import sample from "./chain.json";

const copy = () => structuredClone(sample) as any;

async function verify(of: any, known = {}): Promise<Verification> {
  const verification = new Verification(known);
  for (const action of of.actions) await verification.action(action);
  await verification.refusal(of.refusal);
  await verification.end(of.heads);
  return verification;
}

test("a chain that nobody changed verifies up to both heads", async () => {
  const result = await verify(copy());
  assert.equal(result.found, 0);
  assert.deepEqual([result.actions, result.refusals, result.chainHead], [2, 1, sample.heads.chain_head]);
});

test("the hash of an action covers its limit price to the digit", async () => {
  assert.equal(hex(await actionHash(sample.limited as never)), sample.limited.hash);
  assert.notEqual(hex(await actionHash({ ...sample.limited, limit_price: "1.050" } as never)), sample.limited.hash);
});

test("a changed field is found, with the number of its action", async () => {
  const changed = copy();
  changed.actions[1].quantity = "1000";
  const { flaws } = await verify(changed);
  assert.match(flaws[0]?.where ?? "", /^action 2 /);
  assert.equal(flaws[0]?.what, "its hash is not that of its fields");
});

test("a changed receipt, a removed action and a removed refusal are found", async () => {
  const changed = copy();
  changed.refusal.text = changed.refusal.text.replace('"REFUSED"', '"PASSED"');
  assert.ok((await verify(changed)).found > 0);
  const removed = copy();
  removed.actions.shift();
  assert.match((await verify(removed)).flaws[0]?.what ?? "", /action 1 should be here/);
  const none = new Verification();
  for (const action of copy().actions) await none.action(action);
  await none.end(sample.heads as never);
  assert.match(none.flaws[0]?.what ?? "", /there are 0 refusals, and the account states 1/);
});

test("a head that was stored elsewhere is compared with the chain at its number", async () => {
  const good = { actions: headOf(`2:${sample.heads.chain_head}`) };
  assert.equal((await verify(copy(), good)).found, 0);
  assert.match((await verify(copy(), { actions: headOf(`2:${"0".repeat(64)}`) })).flaws[0]?.what ?? "", /after 2 actions, not 000/);
  assert.match((await verify(copy(), { actions: headOf(`9:${"0".repeat(64)}`) })).flaws[0]?.what ?? "", /has no head at 9/);
  assert.equal(headOf("12"), undefined);
});

test("microseconds are exact, also with a zone and without a fraction", () => {
  assert.equal(micros("1970-01-01T00:00:00.000001Z"), "1");
  assert.equal(micros("2026-11-20T00:17:37.384708Z"), "1795133857384708");
  assert.equal(micros("1970-01-01T01:00:00+01:00"), "0");
});
