import assert from "node:assert/strict";
import test from "node:test";
import { checksOf, type HaltReport, isRunning, progress, verdict } from "../src/screens/halt/checks";
import { switchCommands } from "../src/screens/halt/commands";
import { covers, isComplete, placeIn, placeKey, placeOptions, placeQuery, quoted } from "../src/ui/places";

const ACCOUNT = "01a1f64e-310f-70fa-a487-064ea2100a95";

function report(changes: Partial<HaltReport> = {}): HaltReport {
  return {
    id: "7c73d142-0d29-1c3d-98c8-dc48a0beb900",
    account_id: ACCOUNT,
    scope: "ACCOUNT",
    status: "HALTED",
    version: 3,
    since: "2026-11-20T00:18:38.600917Z",
    until: null,
    cancel_working: true,
    principal_type: "USER",
    principal_id: "you",
    noticed_at: "2026-11-20T00:18:38.700000Z",
    doors_opened_after: 0,
    reducing_doors_after: 0,
    queued: 0,
    skipped: 2,
    in_flight: 0,
    in_flight_commands: [],
    cancels: { asked: 46, confirmed: 46, ended_otherwise: 0, waiting: 0, last_confirmed_at: null },
    no_working_orders: true,
    why: null,
    compared_at: "2026-11-20T00:18:39.033555Z",
    account: {
      as_of: "2026-11-20T00:18:39.378721Z",
      open_orders: 0,
      in_doubt: 0,
      queued: 0,
      orders: [],
      external_open_orders: 0,
      external_orders: [],
    },
    ...changes,
  };
}

const states = (of: HaltReport) => checksOf(of).map(({ state }) => state);

test("a proven halt has six steps done, and is read no more", () => {
  assert.deepEqual(states(report()), ["DONE", "DONE", "DONE", "DONE", "DONE", "DONE"]);
  assert.equal(isRunning(report()), false);
  assert.equal(verdict(report()).isProven, true);
});

test("what is not known shows why and is never done", () => {
  const unknown = report({ no_working_orders: null, why: "the broker's list was not read", compared_at: null });
  const last = checksOf(unknown)[5];
  assert.equal(last?.state, "UNKNOWN");
  assert.ok(last?.detail.includes("the broker's list was not read"));
  assert.equal(verdict(unknown).isProven, false);
  assert.equal(isRunning(unknown), true);
});

test("cancels wait until the executor has recorded the halt and the broker has confirmed all", () => {
  const cancels = { asked: 0, confirmed: 0, ended_otherwise: 0, waiting: 0, last_confirmed_at: null };
  assert.equal(states(report({ noticed_at: null, cancels, no_working_orders: false }))[4], "WAITING");
  const some = { ...cancels, asked: 46, confirmed: 40, waiting: 6 };
  const waiting = report({ cancels: some, no_working_orders: false, why: "6 orders are open" });
  assert.equal(checksOf(waiting)[4]?.detail, "40 of 46 confirmed by the broker");
  assert.equal(isRunning(waiting), true);
});

test("a halt of a symbol proves nothing about the account, and ends when its steps are done", () => {
  const symbol = report({ scope: "SYMBOL", symbol: "TSLA", no_working_orders: null, why: "an order may begin" });
  assert.equal(isRunning(symbol), false);
  assert.deepEqual(progress(checksOf(symbol)), { done: 5, of: 6 });
});

test("steps that do not apply are not counted", () => {
  const reduce = report({ status: "REDUCE_ONLY", doors_opened_after: null, cancel_working: false, no_working_orders: null });
  assert.deepEqual(progress(checksOf(reduce)), { done: 3, of: 4 });
});

test("a door that the halt forbids is wrong", () => {
  assert.equal(states(report({ doors_opened_after: 1 }))[1], "WRONG");
});

test("a halt that ended is not read again, and what was not confirmed stays not known", () => {
  const cancels = { asked: 2, confirmed: 1, ended_otherwise: 0, waiting: 1, last_confirmed_at: null };
  const ended = report({ until: "2026-11-20T00:19:00Z", no_working_orders: null, compared_at: null, cancels });
  assert.equal(isRunning(ended), false);
  assert.deepEqual(states(ended).slice(4), ["UNKNOWN", "UNKNOWN"]);
});

test("an address names a place, and a place an address", () => {
  const place = placeIn(new URLSearchParams("scope=symbol&symbol=tsla"), ACCOUNT);
  assert.deepEqual(place, { scope: "SYMBOL", account_id: ACCOUNT, symbol: "TSLA" });
  assert.deepEqual(placeQuery(place), { scope: "symbol", symbol: "TSLA", key: undefined, account: ACCOUNT });
  assert.equal(placeIn(new URLSearchParams(), undefined).scope, "ORGANIZATION");
  assert.equal(placeIn(new URLSearchParams(), ACCOUNT).scope, "ACCOUNT");
  assert.equal(isComplete(placeIn(new URLSearchParams("scope=key"), ACCOUNT)), false);
});

test("a wider place covers a narrower one", () => {
  const symbol = { scope: "SYMBOL", account_id: ACCOUNT, symbol: "TSLA" } as const;
  assert.ok(covers({ scope: "ORGANIZATION" }, symbol));
  assert.ok(covers({ scope: "ACCOUNT", account_id: ACCOUNT }, symbol));
  assert.ok(!covers({ scope: "ACCOUNT", account_id: ACCOUNT }, { scope: "KEY", api_key_id: "k" }));
  assert.ok(!covers(symbol, { scope: "ACCOUNT", account_id: ACCOUNT }));
  assert.notEqual(placeKey(symbol), placeKey({ ...symbol, symbol: "AAPL" }));
});

test("commands name the place, and quote what a person typed", () => {
  const place = { scope: "SYMBOL", account_id: ACCOUNT, symbol: "TSLA" } as const;
  assert.equal(placeOptions(place), `--account ${ACCOUNT} --symbol TSLA`);
  assert.equal(quoted("it's broken"), `'it'\\''s broken'`);
  const texts = switchCommands(place, { status: "HALTED", reason: "earnings tonight", cancel_working: true });
  assert.equal(
    texts.CLI,
    `openbell controls switch set HALTED --reason 'earnings tonight' --cancel-working --account ${ACCOUNT} --symbol TSLA`,
  );
  assert.ok(texts.Python?.includes('symbol="TSLA"'));
});
