import assert from "node:assert/strict";
import test, { describe } from "node:test";
import { inspect } from "node:util";
import * as openbell from "../dist/index.js";
import { ACCOUNT, ACTION, cutInTheMiddle, INTENT, KEY, nobody, refuse, reply, serve } from "./server.mjs";

const { Client, limit, market, stop, stopLimit } = openbell;
const cut = ({ socket }) => socket.destroy();
const halved = (_, response) => cutInTheMiddle(response, 202, ACTION);
const silent = () => {};
const recorded = (_, response) => reply(response, 202, ACTION);
const refused = (status, code, headers) => (_, response) => refuse(response, status, code, headers);
const buy = (client) => client.buy(ACCOUNT, "AAPL", 10);
const show = (client) => client.intent(ACCOUNT, INTENT);

// What is called, how the attempts are answered (the last answer repeats), how many attempts there are, and the error.
const TABLE = [
  ["a command", buy, [recorded], 1, undefined],
  ["a command, cut before the reply", buy, [cut, recorded], 2, undefined],
  ["a command, cut in the reply", buy, [halved, recorded], 2, undefined],
  ["a command, silent", buy, [silent, recorded], 2, undefined],
  ["a command, always cut", buy, [cut], 4, "OutcomeUnknown"],
  ["a command, always silent", buy, [silent], 4, "OutcomeUnknown"],
  ["a command, overloaded", buy, [refused(503, "overloaded", { "retry-after": "0" }), recorded], 2, undefined],
  ["a command, overloaded for long", buy, [refused(503, "overloaded", { "retry-after": "60" })], 1, "Unavailable"],
  ["a command, cut, then overloaded", buy, [cut, refused(503, "overloaded")], 4, "OutcomeUnknown"],
  ["a command, failed", buy, [refused(500, "internal_error"), recorded], 2, undefined],
  ["a command, always failed", buy, [refused(500, "internal_error")], 4, "OutcomeUnknown"],
  ["a command, limited", buy, [refused(429, "rate_limited"), recorded], 2, undefined],
  ["a command, limited for long", buy, [refused(429, "rate_limited", { "retry-after": "60" })], 1, "RateLimited"],
  ["a command, changed meanwhile", buy, [refused(409, "concurrent_change"), recorded], 2, undefined],
  ["a command, closed", buy, [refused(409, "order_terminal")], 1, "Conflict"],
  ["a command, wrong", buy, [refused(422, "invalid_command")], 1, "Invalid"],
  ["a command, refused by a control", buy, [refused(422, "controls_refused")], 1, "Invalid"],
  ["a command, cut, then wrong", buy, [cut, refused(422, "invalid_command")], 2, "Invalid"],
  ["a command, cut, then refused by a control", buy, [cut, refused(422, "controls_refused")], 2, "OutcomeUnknown"],
  ["a command, cut, then not allowed", buy, [cut, refused(403, "permission_denied")], 2, "OutcomeUnknown"],
  ["a command, not readable", buy, [(_, response) => response.writeHead(202).end("<html>")], 1, "OutcomeUnknown"],
  ["a read, cut", show, [cut, recorded], 2, undefined],
  ["a read, always cut", show, [cut], 4, "Unreachable"],
  ["a read, always failed", show, [refused(503, "unavailable")], 4, "Unavailable"],
  ["a read, not found", show, [refused(404, "not_found")], 1, "NotFound"],
  ["a read, not authenticated", show, [refused(401, "unauthenticated")], 1, "NotAuthenticated"],
  ["a read, not readable", show, [(_, response) => response.end("<html>")], 1, "UnexpectedReply"],
  ["a read, sent elsewhere", show, [(_, r) => r.writeHead(302, { location: "/healthz" }).end()], 1, "UnexpectedReply"],
  [
    "a change without a key",
    (client) => client.take(client.api.POST("/v1/webhooks", { body: {} })),
    [cut],
    1,
    "Unreachable",
  ],
  [
    "a change of a version",
    (client) => {
      const params = { path: { account_id: ACCOUNT }, header: { "If-Match": '"3"' } };
      return client.take(client.api.PATCH("/v1/accounts/{account_id}", { params, body: {} }));
    },
    [refused(503, "unavailable")],
    1,
    "Unavailable",
  ],
  [
    "a change that may be repeated",
    (client) => {
      const params = { path: { account_id: ACCOUNT } };
      return client.take(client.api.PATCH("/v1/accounts/{account_id}", { params, body: {} }));
    },
    [cut, recorded],
    2,
    undefined,
  ],
];

describe("attempts", { concurrency: true, timeout: 60_000 }, () => {
  for (const [what, call, answers, attempts, error] of TABLE) {
    test(`${what}: ${attempts} attempts, ${error ?? "an answer"}`, async (each) => {
      const server = await serve(each, (...asked) => (answers[asked[2]] ?? answers.at(-1))(...asked));
      // Short only for an answer that never comes: a slow machine may take longer for one that does.
      const timeoutMillis = answers.includes(silent) ? 1_000 : 60_000;
      const client = new Client({ baseUrl: server.url, apiKey: KEY, timeoutMillis });
      const ended = await call(client).then(
        () => undefined,
        (thrown) => thrown,
      );
      assert.equal(ended?.name, error, ended?.stack);
      if (error) assert.ok(ended instanceof openbell[error]);
      if (!answers.includes(silent)) assert.equal(server.requests.length, attempts);
      const keys = new Set(server.requests.map(({ headers }) => headers["idempotency-key"]));
      assert.equal(keys.size, 1);
      if (call === buy) assert.match([...keys][0], /^[0-9a-f]{32}$/);
      if (error === "OutcomeUnknown") assert.ok(keys.has(ended.idempotencyKey));
    });
  }
});

describe("calls", { concurrency: true, timeout: 60_000 }, () => {
  test("every command has a key of its own, and the caller's if given", async (each) => {
    const server = await serve(each, recorded);
    const client = new Client({ baseUrl: server.url, apiKey: KEY });
    for (let count = 0; count < 20; count++) await buy(client);
    await client.buy(ACCOUNT, "AAPL", 10, { idempotencyKey: "mine" });
    const keys = server.requests.map(({ headers }) => headers["idempotency-key"]);
    assert.equal(new Set(keys).size, 21);
    assert.equal(keys.at(-1), "mine");
  });

  test("desk commands have the body of the API, and a key", async (each) => {
    const server = await serve(each, recorded);
    const client = new Client({ baseUrl: server.url, apiKey: KEY });
    await client.cancelAll(ACCOUNT, { symbol: "AAPL", idempotencyKey: "mine" });
    await client.closePosition(ACCOUNT, "AAPL");
    assert.deepEqual(
      server.requests.map(({ body }) => body),
      [
        { type: "CANCEL_ALL", symbol: "AAPL" },
        { type: "CLOSE_POSITION", symbol: "AAPL" },
      ],
    );
    assert.equal(server.requests[0].headers["idempotency-key"], "mine");
    assert.match(server.requests[1].headers["idempotency-key"], /^[0-9a-f]{32}$/);
  });

  test("commands have the body of the API", async (each) => {
    const server = await serve(each, recorded);
    const client = new Client({ baseUrl: server.url, apiKey: KEY });
    await client.buy(ACCOUNT, "AAPL", 10);
    await client.sell(ACCOUNT, "AAPL", limit("10.5", "187.50", { time_in_force: "DAY" }), {
      client_reference_id: "mine",
    });
    await client.createIntent(ACCOUNT, "AAPL", "SELL_SHORT", stop(10n, 180), { route_strategy: "SMART" });
    await client.replaceIntent(ACCOUNT, INTENT, stopLimit(10, 180, "179.50"), { deadline: "2026-01-05T16:00:00Z" });
    await client.cancelIntent(ACCOUNT, INTENT);
    assert.deepEqual(
      server.requests.map(({ body }) => body),
      [
        {
          command: {
            type: "CREATE",
            payload: { symbol: "AAPL", order_side: "BUY", spec: { Market: { quantity: "10" } } },
          },
        },
        {
          command: {
            type: "CREATE",
            payload: {
              symbol: "AAPL",
              order_side: "SELL",
              spec: { Limit: { quantity: "10.5", price: "187.50", time_in_force: "DAY" } },
            },
          },
          client_reference_id: "mine",
        },
        {
          command: {
            type: "CREATE",
            payload: {
              symbol: "AAPL",
              order_side: "SELL_SHORT",
              spec: { Stop: { quantity: "10", stop_price: "180" } },
              route_strategy: "SMART",
            },
          },
        },
        {
          command: {
            type: "REPLACE",
            payload: {
              ref_intent_id: INTENT,
              spec: { StopLimit: { quantity: "10", stop_price: "180", price: "179.50" } },
            },
          },
          deadline: "2026-01-05T16:00:00Z",
        },
        { command: { type: "CANCEL", payload: { ref_intent_id: INTENT } } },
      ],
    );
  });

  test("a number that is not exact is refused before anything is sent", () => {
    for (const wrong of [0.1, 187.5, Number.NaN, 2 ** 60, "1e3", "-1", "+1", "", "01", "0", "0.0", ".5", "1.", 0, -1]) {
      assert.throws(() => market(wrong), openbell.NotConfigured, String(wrong));
    }
    assert.deepEqual(market("0.000000000000000001"), { Market: { quantity: "0.000000000000000001" } });
  });

  test("a replayed command is marked", async (each) => {
    const server = await serve(each, (_, response) => reply(response, 202, ACTION, { "idempotency-replayed": "true" }));
    const action = await buy(new Client({ baseUrl: server.url, apiKey: KEY }));
    assert.equal(action.replayed, true);
    assert.equal(action.intent_id, INTENT);
  });

  test("an error has every part of the problem, and the address", async (each) => {
    const server = await serve(each, refused(422, "invalid_command"));
    const error = await buy(new Client({ baseUrl: server.url, apiKey: KEY })).catch((thrown) => thrown);
    const { code, title, detail, remedy, status, errors, requestId, url, message } = error;
    assert.deepEqual(
      [code, title, detail, status, requestId],
      ["invalid_command", "The title of invalid_command", "About invalid_command", 422, "4f6b"],
    );
    assert.deepEqual(errors, [{ pointer: "/command", code: "invalid", message: "must be another" }]);
    assert.equal(message, `${detail} ${remedy}`);
    assert.equal(url, `${server.url}/v1/accounts/${ACCOUNT}/intents`);
  });

  test("without a server, an error has the address and the remedy, and a command was not sent", async () => {
    const address = await nobody();
    const client = new Client({ baseUrl: address, apiKey: KEY });
    for (const call of [buy, show]) {
      const error = await call(client).catch((thrown) => thrown);
      assert.ok(error instanceof openbell.Unreachable, error.stack);
      assert.ok(error.url.startsWith(`${address}/v1/accounts/${ACCOUNT}/intents`));
      assert.ok(error.remedy.includes(`platform runs at ${address} `));
    }
  });

  test("with headers instead of a credential, every request has them and no credential", async (each) => {
    const server = await serve(each, (_, response) => reply(response, 200, { data: [], next_cursor: null }));
    const client = new Client({ baseUrl: server.url, headers: { "x-openbell-console": "1" } });
    for await (const _ of client.accounts());
    const { headers } = server.requests[0];
    assert.deepEqual(
      [headers["x-openbell-console"], headers["x-api-key"], headers.authorization],
      ["1", undefined, undefined],
    );
  });

  test("an access token is sent instead of a key, and asked for anew by each call", async (each) => {
    const server = await serve(each, recorded);
    let calls = 0;
    const client = new Client({ baseUrl: server.url, apiKey: KEY, accessToken: async () => `token-${++calls}` });
    await show(client);
    await show(client);
    const sent = server.requests.map(({ headers }) => [headers.authorization, headers["x-api-key"]]);
    assert.deepEqual(sent, [
      ["Bearer token-1", undefined],
      ["Bearer token-2", undefined],
    ]);
  });

  test("neither a client nor an error shows the key", async (each) => {
    const server = await serve(each, refused(401, "unauthenticated"));
    const client = new Client({ baseUrl: server.url, apiKey: KEY });
    const error = await show(client).catch((thrown) => thrown);
    assert.equal(server.requests[0].headers["x-api-key"], KEY);
    assert.ok(!inspect(client, { depth: 9, showHidden: true }).includes(KEY));
    assert.ok(!inspect(error, { depth: 9, showHidden: true }).includes(KEY));
  });

  test("what is missing or malformed is refused", () => {
    for (const wrong of [
      {},
      { apiKey: "" },
      { apiKey: "a b" },
      { apiKey: KEY, baseUrl: "localhost:8080" },
      { apiKey: KEY, timeoutMillis: 0 },
    ]) {
      assert.throws(() => new Client(wrong), openbell.NotConfigured, inspect(wrong));
    }
  });

  test("an abort ends a read with its reason, and a sent command as unknown", async (each) => {
    const server = await serve(each, silent);
    const client = new Client({ baseUrl: server.url, apiKey: KEY });
    const aborted = async (call) => {
      const [controller, before] = [new AbortController(), server.requests.length];
      const ended = call(controller.signal).catch((thrown) => thrown);
      while (server.requests.length === before) await new Promise((resolve) => setTimeout(resolve, 5));
      controller.abort(new Error("enough"));
      return ended;
    };
    assert.equal((await aborted((signal) => client.intent(ACCOUNT, INTENT, { signal }))).message, "enough");
    const unknown = await aborted((signal) => client.buy(ACCOUNT, "AAPL", 10, { signal }));
    assert.ok(unknown instanceof openbell.OutcomeUnknown, unknown.stack);
    await assert.rejects(client.buy(ACCOUNT, "AAPL", 10, { signal: AbortSignal.abort(new Error("before")) }), /before/);
    assert.equal(server.requests.length, 2);
  });

  test("wait polls until the execution is final, also through an outage", async (each) => {
    const states = ["PENDING_NEW", undefined, "WORKING", "FILLED"];
    const server = await serve(each, (_, response, count) => {
      if (!states[count]) return response.socket.destroy();
      return reply(response, 200, { ...ACTION, execution: { status: states[count] } });
    });
    const action = await new Client({ baseUrl: server.url, apiKey: KEY }).wait(ACCOUNT, INTENT);
    assert.equal(action.execution.status, "FILLED");
    assert.equal(server.requests.length, 4);
  });

  test("wait ends with the last state if it is still open, and at once if the intent is not found", async (each) => {
    const open = await serve(each, (_, response) =>
      reply(response, 200, { ...ACTION, execution: { status: "WORKING" } }),
    );
    const error = await new Client({ baseUrl: open.url, apiKey: KEY })
      .wait(ACCOUNT, INTENT, { timeoutMillis: 3_000 })
      .catch((thrown) => thrown);
    assert.ok(error instanceof openbell.NotFinal, error.stack);
    assert.equal(error.action.execution.status, "WORKING");
    const missing = await serve(each, refused(404, "not_found"));
    await assert.rejects(new Client({ baseUrl: missing.url, apiKey: KEY }).wait(ACCOUNT, INTENT), openbell.NotFound);
    assert.equal(missing.requests.length, 1);
  });

  test("a list is read page after page with its filters", async (each) => {
    const pages = [
      { data: [1, 2], next_cursor: "a" },
      { data: [], next_cursor: "b" },
      { data: [3], next_cursor: null },
    ];
    const server = await serve(each, (_, response, count) => reply(response, 200, pages[count]));
    const found = [];
    for await (const order of new Client({ baseUrl: server.url, apiKey: KEY }).orders({ account_id: ACCOUNT, status: "WORKING" })) {
      found.push(order);
    }
    assert.deepEqual(found, [1, 2, 3]);
    const queries = server.requests.map(({ url }) => Object.fromEntries(new URL(url, server.url).searchParams));
    assert.ok(queries.every(({ status, limit }) => status === "WORKING" && limit === "100"));
    assert.deepEqual(
      queries.map(({ next_cursor }) => next_cursor),
      [undefined, "a", "b"],
    );
  });

  test("a page that names itself as the next one ends a list", async (each) => {
    const server = await serve(each, (_, response) => reply(response, 200, { data: [1], next_cursor: "a" }));
    const read = async () => {
      for await (const _ of new Client({ baseUrl: server.url, apiKey: KEY }).accounts());
    };
    await assert.rejects(read(), openbell.UnexpectedReply);
  });
});
