import assert from "node:assert/strict";
import test from "node:test";
import { Client, type StreamEvent } from "@openbell/client";
import { Feed, type Report } from "../src/live/feed";

const A = "01981d3c-7a00-7000-8000-00000000000a";
const B = "01981d3c-7a00-7000-8000-00000000000b";
const frame = (type: string, data: object, id = "") => `${id && `id: ${id}\n`}event: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
const subscribed = (id: string) => frame("subscribed", { subscribed: { start: "LIVE" } }, id);
const event = (account_id: string, seq: number, id = "") =>
  frame("broker_trade", { account_id, account_seq: seq, prev_seq: seq - 1, type: "BROKER_TRADE", broker_trade: {} }, id);

interface Seen {
  url: string;
  token: string | null;
  header: string | null;
}

/** A server that gives each connection its answer; the last one stays open. */
function serverOf(answers: (() => Response)[]) {
  const seen: Seen[] = [];
  const fetch = (request: RequestInfo | URL): Promise<Response> => {
    const { url, headers } = request as Request;
    seen.push({ url, token: headers.get("last-event-id"), header: headers.get("x-openbell-console") });
    const answer = answers[seen.length - 1];
    return answer ? Promise.resolve(answer()) : new Promise(() => undefined);
  };
  const client = new Client({ baseUrl: "http://console.test", headers: { "x-openbell-console": "1" }, fetch });
  return { client, seen };
}

const stream = (text: string) => () => new Response(new Blob([text]).stream(), { status: 200 });
const refusal = (status: number, code: string) => () =>
  new Response(JSON.stringify({ code, status, title: code, detail: code, remedy: "", errors: [] }), { status, headers: { "content-type": "application/problem+json" } });

async function reportsOf(answers: (() => Response)[], enough: (reports: Report[]) => boolean, act?: (feed: Feed, reports: Report[]) => void) {
  const { client, seen } = serverOf(answers);
  const reports: Report[] = [];
  const ended = new AbortController();
  const feed = new Feed(client, (report) => reports.push(report), () => Promise.resolve());
  void feed.run(ended.signal);
  const deadline = Date.now() + 60_000;
  while (!enough(reports) && Date.now() < deadline) {
    act?.(feed, reports);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  ended.abort();
  assert.ok(enough(reports), JSON.stringify(reports));
  return { reports, seen };
}

const eventsOf = (reports: Report[]): StreamEvent[] => reports.flatMap((each) => (each.kind === "events" ? each.events : []));
const lampsOf = (reports: Report[]) => reports.flatMap((each) => (each.kind === "lamp" ? [each.lamp] : []));
const begun = (reports: Report[]) => reports.filter((each) => each.kind === "begun").length;

test("the stream is of all accounts, has the console's header, and begins live", async () => {
  const { reports, seen } = await reportsOf([stream(subscribed("t0") + event(A, 7, "t1") + event(B, 3))], (all) => eventsOf(all).length === 2);
  assert.deepEqual(eventsOf(reports).map(({ account_id, account_seq }) => [account_id, account_seq]), [[A, 7], [B, 3]]);
  const address = new URL(seen[0]?.url ?? "");
  assert.deepEqual([address.pathname, address.search, seen[0]?.header, seen[0]?.token], ["/v1/events", "?start=LIVE", "1", null]);
  assert.equal(begun(reports), 1);
});

test("after a cut the stream resumes with the token and without start, and drops what came before", async () => {
  const answers = [stream(subscribed("t0") + event(A, 7, "t1") + event(A, 8)), refusal(502, "bad_gateway"), stream(subscribed("t1") + event(A, 8) + event(A, 9, "t2"))];
  const { reports, seen } = await reportsOf(answers, (all) => eventsOf(all).length === 3);
  assert.deepEqual(eventsOf(reports).map(({ account_seq }) => account_seq), [7, 8, 9]);
  assert.deepEqual(seen.slice(1, 3).map(({ url, token }) => [new URL(url).search, token]), [["", "t1"], ["", "t1"]]);
  assert.deepEqual(lampsOf(reports).slice(0, 3), ["live", "cut", "live"]);
  assert.equal(begun(reports), 1, "nothing is read again");
});

test("without a session the stream waits, and after the sign-in it resumes and drops what the server repeats", async () => {
  const answers = [stream(subscribed("t0") + event(A, 7, "t1") + event(B, 3)), refusal(401, "signed_out"), stream(subscribed("t1") + event(B, 3) + event(A, 8, "t2"))];
  const { reports, seen } = await reportsOf(answers, (all) => eventsOf(all).at(-1)?.account_seq === 8, (feed, all) => {
    if (lampsOf(all).at(-1) === "signed-out") feed.signedIn();
  });
  assert.ok(lampsOf(reports).includes("signed-out"));
  assert.deepEqual(eventsOf(reports).map(({ account_seq }) => account_seq), [7, 3, 8]);
  assert.deepEqual([seen[2]?.token, begun(reports)], ["t1", 1]);
});

test("a token that the server refuses begins the stream anew, and tells the tabs to read again", async () => {
  const answers = [stream(subscribed("t0") + event(A, 7, "t1")), refusal(409, "invalid_cursor"), stream(subscribed("n0") + event(A, 3, "n1"))];
  const { reports, seen } = await reportsOf(answers, (all) => begun(all) === 2 && eventsOf(all).length === 2);
  assert.deepEqual([seen[2]?.token, new URL(seen[2]?.url ?? "").search], [null, "?start=LIVE"]);
  assert.deepEqual(eventsOf(reports).map(({ account_seq }) => account_seq), [7, 3]);
});

test("events that are missing begin the stream anew", async () => {
  const answers = [stream(subscribed("t0") + event(A, 7, "t1") + event(A, 9, "t3")), stream(subscribed("n0") + event(A, 10, "n1"))];
  const { reports } = await reportsOf(answers, (all) => begun(all) === 2 && eventsOf(all).length === 2);
  assert.deepEqual(eventsOf(reports).map(({ account_seq }) => account_seq), [7, 10]);
});
