import assert from "node:assert/strict";
import test from "node:test";
import { UnexpectedReply } from "../dist/errors.js";
import { FrameParser } from "../dist/frames.js";

const LINES = [
  "retry: 1000",
  "",
  ": a comment",
  "id: token-1",
  "event: subscribed",
  'data: {"account_seq":41}',
  "",
  "id:token-2",
  "event:broker_order",
  'data: {"symbol":"ÄÖ€😀",',
  'data: "account_seq":42}',
  "",
  'data: {"no": "type"}',
  "nonsense",
  "",
  "event: without data",
  "",
];
const FRAMES = [
  { type: "subscribed", id: "token-1", data: { account_seq: 41 } },
  { type: "broker_order", id: "token-2", data: { symbol: "ÄÖ€😀", account_seq: 42 } },
  { type: "", id: "", data: { no: "type" } },
];

for (const [name, end] of [
  ["LF", "\n"],
  ["CRLF", "\r\n"],
  ["CR", "\r"],
]) {
  const bytes = new TextEncoder().encode(LINES.join(end) + end);

  test(`frames with ${name} are the same wherever two cuts are`, () => {
    for (let first = 0; first <= bytes.length; first++) {
      for (let second = first; second <= bytes.length; second += 7) {
        const parser = new FrameParser();
        const parts = [bytes.subarray(0, first), bytes.subarray(first, second), bytes.subarray(second)];
        assert.deepEqual(
          parts.flatMap((part) => parser.push(part)),
          FRAMES,
        );
      }
    }
  });

  test(`frames with ${name} are the same byte by byte`, () => {
    const parser = new FrameParser();
    assert.deepEqual(
      [...bytes].flatMap((byte) => parser.push(Uint8Array.of(byte))),
      FRAMES,
    );
  });
}

test("a byte order mark is not part of the first line", () => {
  assert.deepEqual(new FrameParser().push(new TextEncoder().encode('\uFEFFdata: {"a":1}\n\n')), [
    { type: "", id: "", data: { a: 1 } },
  ]);
});

test("a frame without its empty line is not a frame", () => {
  assert.deepEqual(new FrameParser().push(new TextEncoder().encode('id: a\ndata: {"a":1}\n')), []);
});

test("data that is not JSON is an unexpected reply", () => {
  assert.throws(() => new FrameParser().push(new TextEncoder().encode("data: <html>\n\n")), UnexpectedReply);
});
