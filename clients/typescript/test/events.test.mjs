import assert from "node:assert/strict";
import test, { describe } from "node:test";
import * as openbell from "../dist/index.js";
import { ACCOUNT, KEY, nobody, refuse, reply, serve } from "./server.mjs";

const { Client, EventMissed } = openbell;
const token = (seq) => `token-${seq}`;
const frame = (type, seq, prev, body = {}, id = token(seq)) =>
  `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify({ account_seq: seq, prev_seq: prev, [type]: body })}\n\n`;
const event = (seq, prev = seq - 1) => frame("broker_trade", seq, prev, { symbol: "ÄÖ€" });
const begin = (response) => response.writeHead(200, { "content-type": "text/event-stream" });
const clientOf = (server) => new Client({ baseUrl: server.url, apiKey: KEY });

/** Everything until an error, or until `enough` events came. */
async function collect(stream, enough) {
  const events = [];
  try {
    for await (const each of stream) {
      events.push(each);
      if (events.length === enough) break;
    }
  } catch (error) {
    return { events, error };
  }
  return { events };
}

/** A log of `size` events: each connection continues after its token, and is cut after `bytes(count)` bytes. */
function log(size, bytes) {
  return ({ headers, url }, response, count) => {
    const after = Number(headers["last-event-id"]?.slice("token-".length) ?? 0);
    assert.equal(new URL(url, "http://x").searchParams.has("start"), after === 0);
    let text = `retry: 1000\n\n${frame("subscribed", after, after)}`;
    for (let seq = after + 1; seq <= size; seq++) text += event(seq) + (seq % 5 ? "" : frame("heartbeat", seq, seq));
    const sent = Buffer.from(text).subarray(0, bytes(count));
    begin(response).write(sent, () => response.socket.destroy());
  };
}

describe("events", { concurrency: true, timeout: 60_000 }, () => {
  test("a stream that is cut anywhere has every event once", async (each) => {
    // From within the first line to several events further.
    const server = await serve(
      each,
      log(60, (count) => 40 + ((count * 397) % 1500)),
    );
    const { events, error } = await collect(clientOf(server).events(ACCOUNT, { start: "BEGINNING" }), 60);
    assert.equal(error, undefined);
    assert.deepEqual(
      events.map(({ account_seq }) => account_seq),
      Array.from({ length: 60 }, (_, at) => at + 1),
    );
    assert.ok(server.requests.length > 10);
    const [first] = events;
    assert.deepEqual(
      [first.type, first.resume_token, first.broker_trade.symbol, first.is_snapshot],
      ["BROKER_TRADE", "token-1", "ÄÖ€", false],
    );
  });

  test("a stream continues after the token that the caller stored", async (each) => {
    const server = await serve(
      each,
      log(5, () => 1e6),
    );
    const { events } = await collect(clientOf(server).events(ACCOUNT, { resumeToken: token(3) }), 2);
    assert.deepEqual(
      events.map(({ account_seq }) => account_seq),
      [4, 5],
    );
    assert.equal(server.requests[0].headers["last-event-id"], token(3));
  });

  test("an event that is sent again is dropped", async (each) => {
    const server = await serve(each, (_, response) =>
      begin(response).write(event(1) + event(2) + event(1) + event(2) + event(3)),
    );
    const { events } = await collect(clientOf(server).events(ACCOUNT), 3);
    assert.deepEqual(
      events.map(({ account_seq }) => account_seq),
      [1, 2, 3],
    );
  });

  test("an event that is skipped is an error with the token before it", async (each) => {
    const server = await serve(each, (_, response) => begin(response).write(event(1) + event(2) + event(4)));
    const { events, error } = await collect(clientOf(server).events(ACCOUNT));
    assert.equal(events.length, 2);
    assert.ok(error instanceof EventMissed, error.stack);
    assert.deepEqual([error.position, error.prevSeq, error.resumeToken], [2, 3, token(2)]);
  });

  test("the events of every account come in the order of each, and a repeated one comes once", async (each) => {
    const of = (account, seq, id) =>
      frame("broker_trade", seq, seq - 1, {}, id).replace('data: {', `data: {"account_id":"${account}",`);
    const beat = (id) => `id: ${id}\nevent: heartbeat\ndata: {"heartbeat":{}}\n\n`;
    const answers = [
      beat("t0").replaceAll("heartbeat", "subscribed") + of("a", 7, "t1") + of("b", 3, "") + of("a", 8, ""),
      of("b", 3, "") + of("a", 8, "") + of("b", 4, "t2") + beat("t3"),
    ];
    const server = await serve(each, (_, response, count) => begin(response).end(answers[count]));
    const reports = [];
    const onConnection = (report) => reports.push([report.isOpen, report.resumeToken]);
    const { events, error } = await collect(clientOf(server).events(undefined, { onConnection }), 4);
    assert.equal(error, undefined);
    assert.deepEqual(
      events.map(({ account_id, account_seq }) => `${account_id}${account_seq}`),
      ["a7", "b3", "a8", "b4"],
    );
    assert.equal(new URL(server.requests[0].url, "http://x").search, "?start=LIVE");
    assert.deepEqual([server.requests[1].headers["last-event-id"], server.requests[1].url], ["t1", "/v1/events"]);
    assert.deepEqual(reports.slice(0, 2), [
      [true, "t0"],
      [false, "t1"],
    ]);
  });

  test("events left out by a filter are not missing", async (each) => {
    const server = await serve(each, (_, response) =>
      begin(response).write(frame("subscribed", 3, 3) + event(7, 3) + event(9, 7)),
    );
    const { events } = await collect(
      clientOf(server).events(ACCOUNT, { types: ["BROKER_TRADE"], symbols: ["A", "B"] }),
      2,
    );
    assert.deepEqual(
      events.map(({ account_seq }) => account_seq),
      [7, 9],
    );
    const query = new URL(server.requests[0].url, server.url).searchParams;
    assert.deepEqual([query.get("types"), query.get("symbols"), query.get("start")], ["BROKER_TRADE", "A,B", "LIVE"]);
  });

  test("events missed between two connections are an error", async (each) => {
    const answers = [frame("subscribed", 3, 3) + event(4), frame("subscribed", 8, 8) + event(9, 8)];
    const server = await serve(each, (_, response, count) => begin(response).end(answers[count]));
    const { events, error } = await collect(clientOf(server).events(ACCOUNT));
    assert.equal(events.length, 1);
    assert.ok(error instanceof EventMissed, error.stack);
  });

  test("a gap is an error with the token after it", async (each) => {
    const gap = frame("gap", 9, 9, { first_seq: 1, last_seq: 9, reason: "RETENTION" });
    const server = await serve(each, (_, response) => begin(response).write(frame("subscribed", 0, 0) + gap));
    const { error } = await collect(clientOf(server).events(ACCOUNT, { start: "BEGINNING" }));
    assert.ok(error instanceof EventMissed, error.stack);
    assert.deepEqual([error.position, error.prevSeq, error.resumeToken, error.reason], [0, 9, token(9), "RETENTION"]);
  });

  test("a snapshot that is cut is begun anew, and the events after it follow", async (each) => {
    const [order, held] = [
      frame("broker_order", 7, 7, {}, ""),
      frame("broker_position", 7, 7, { symbol: "A", quantity: "1" }, ""),
    ];
    const whole = order + held + frame("primed", 7, 7) + event(8);
    const server = await serve(each, (_, response, count) => begin(response).end(count ? whole : order));
    const { events } = await collect(clientOf(server).events(ACCOUNT, { start: "PRIMED" }), 4);
    assert.deepEqual(
      events.map(({ type, is_snapshot }) => [type, is_snapshot]),
      [
        ["BROKER_ORDER", true],
        ["BROKER_POSITION", true],
        ["PRIMED", false],
        ["BROKER_TRADE", false],
      ],
    );
    assert.equal(server.requests[1].headers["last-event-id"], undefined);
  });

  test("a frame of an unknown type does not move the position", async (each) => {
    const server = await serve(each, (_, response) => begin(response).write(event(1) + frame("news", 5, 5) + event(2)));
    const { events } = await collect(clientOf(server).events(ACCOUNT), 2);
    assert.deepEqual(
      events.map(({ account_seq }) => account_seq),
      [1, 2],
    );
  });

  test("a signal ends a stream that waits, and its connection", async (each) => {
    const controller = new AbortController();
    let close;
    const closed = new Promise((resolve) => (close = resolve));
    const server = await serve(each, (_, response) => {
      response.on("close", close);
      begin(response).write(event(1));
    });
    const seen = [];
    for await (const each of clientOf(server).events(ACCOUNT, { signal: controller.signal })) {
      seen.push(each.account_seq);
      setTimeout(() => controller.abort(), 20);
    }
    assert.deepEqual(seen, [1]);
    assert.equal(server.requests.length, 1);
    await closed;
  });

  test("leaving the loop ends the connection", async (each) => {
    let close;
    const closed = new Promise((resolve) => (close = resolve));
    const server = await serve(each, (_, response) => {
      response.on("close", close);
      begin(response).write(event(1));
    });
    await collect(clientOf(server).events(ACCOUNT), 1);
    await closed;
  });

  test("a refusal ends a stream, an outage does not", async (each) => {
    const refused = await serve(each, (_, response) => refuse(response, 403, "permission_denied"));
    const { error } = await collect(clientOf(refused).events(ACCOUNT));
    assert.ok(error instanceof openbell.PermissionDenied, error.stack);
    assert.deepEqual([error.code, refused.requests.length], ["permission_denied", 1]);
    const recovers = await serve(each, (_, response, count) =>
      count < 2 ? refuse(response, 503, "unavailable") : begin(response).write(event(1)),
    );
    assert.equal((await collect(clientOf(recovers).events(ACCOUNT), 1)).events.length, 1);
  });

  test("a stream that never begins ends after a few attempts, with the address", async () => {
    const address = await nobody();
    const client = new Client({ baseUrl: address, apiKey: KEY });
    const { error } = await collect(client.events(ACCOUNT, { resumeToken: token(3) }));
    assert.ok(error instanceof openbell.Unreachable, error.stack);
    assert.ok(error.url.startsWith(`${address}/v1`));
    assert.equal(error.resumeToken, token(3));
  });

  test("past events are read page after page, and a gap is an error", async (each) => {
    const pages = [
      { data: [{ account_seq: 4 }], next_cursor: "a" },
      { data: [{ account_seq: 5 }], next_cursor: "b" },
      { data: [], gap: { first_seq: 6, last_seq: 8, resume_token: "c", reason: "DELETED" } },
    ];
    const server = await serve(each, (_, response, count) => reply(response, 200, pages[count]));
    const { events, error } = await collect(clientOf(server).eventHistory(ACCOUNT, { after_seq: 3 }));
    assert.deepEqual(events, [{ account_seq: 4 }, { account_seq: 5 }]);
    assert.deepEqual([error.position, error.prevSeq, error.resumeToken, error.reason], [5, 8, "c", "DELETED"]);
    const queries = server.requests.map(({ url }) => new URL(url, server.url).searchParams);
    assert.deepEqual(
      queries.map((query) => [query.get("after_seq"), query.get("next_cursor")]),
      [
        ["3", null],
        [null, "a"],
        [null, "b"],
      ],
    );
  });
});
