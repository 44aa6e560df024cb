import assert from "node:assert/strict";
import test from "node:test";
import { Book, type BookPage, placeOf, ROWS_MAX } from "../src/live/book";
import type { Row, StreamEvent } from "./things";

const id = (number: number) => `01a1f641-0000-7000-8000-${String(number).padStart(12, "0")}`;
const row = (number: number, more: Partial<Row> = {}): Row => ({
  id: id(number), account: "a", at: "2026-11-20T00:00:00Z", isRefusal: false, symbol: "AAPL", side: "BUY", type: "MARKET", timeInForce: "DAY",
  quantity: "10", filled: "0", state: "WORKING", updated: "2026-11-20T00:00:00Z", changes: 0, changedAt: 0, ...more,
});
const event = (number: number, status = "NEW", at = "2026-11-20T00:00:05Z"): StreamEvent =>
  ({
    account_id: "a", account_seq: number, occurred_at: at, type: "BROKER_ORDER",
    broker_order: { intent_id: id(number), symbol: "AAPL", order_side: "BUY", order_type: "MARKET", quantity: "10", time_in_force: "DAY", client_order_id: "c", status, pending: "NONE", certainty: "CONFIRMED", filled_quantity: "0", leaves_quantity: "10" },
  }) as StreamEvent;
const now = (act: () => void) => act();
/** Pages of `size` rows down to number 1. */
const pages = (newest: number, size: number) => (cursor: string | undefined): Promise<BookPage> => {
  const first = cursor === undefined ? newest : Number(cursor);
  const last = Math.max(1, first - size + 1);
  const rows = Array.from({ length: first - last + 1 }, (_, at) => row(first - at));
  return Promise.resolve({ rows, next: last > 1 ? String(last - 1) : undefined });
};
const bookOf = (page: (cursor: string | undefined) => Promise<BookPage>, refusals?: Row[]) =>
  new Book({ page, accepts: () => true, ...(refusals && { refusals: () => Promise.resolve(refusals) }) }, now);
const numbers = (book: Book) => book.rows.map((each) => Number(each.id.slice(-12)));
const settled = () => new Promise((resolve) => setTimeout(resolve));

test("a place is found by binary search, of rows that are there and of rows that are not", () => {
  const rows = [9, 7, 5].map((number) => row(number));
  assert.deepEqual([10, 9, 8, 7, 5, 4].map((number) => placeOf(rows, id(number))), [0, 0, 1, 1, 2, 3]);
  assert.equal(placeOf([], id(1)), 0);
});

test("pages are read from the newest to the oldest, each row once", async () => {
  const book = bookOf(pages(7, 3));
  await book.load();
  assert.deepEqual(numbers(book), [7, 6, 5]);
  await book.older();
  await book.older();
  assert.deepEqual([numbers(book), book.isComplete], [[7, 6, 5, 4, 3, 2, 1], true]);
});

test("an event changes only its own row, or puts a new one at its place", async () => {
  const book = bookOf(pages(5, 5));
  await book.load();
  const before = book.rows.slice();
  assert.deepEqual(book.apply([event(6), event(3, "FILLED")], 1), [id(6), id(3)]);
  assert.deepEqual(numbers(book), [6, 5, 4, 3, 2, 1]);
  assert.equal(book.get(id(3))?.state, "FILLED");
  assert.equal(book.rows[1], before[0]);
  assert.notEqual(book.rows[3], before[2]);
});

test("an event about an order older than the pages that were read makes no hole", async () => {
  const book = bookOf(pages(9, 3));
  await book.load();
  book.apply([event(2, "FILLED")], 1);
  assert.deepEqual(numbers(book), [9, 8, 7]);
  await book.older();
  await book.older();
  assert.deepEqual(numbers(book), [9, 8, 7, 6, 5, 4, 3, 2, 1]);
  assert.equal(book.get(id(2))?.state, "FILLED", "the page was older than the event");
});

test("events that come while the page is read are newer than the page", async () => {
  let answer: (page: BookPage) => void = () => undefined;
  const book = bookOf(() => new Promise((resolve) => (answer = resolve)));
  const loading = book.load();
  book.apply([event(3, "FILLED"), event(4)], 1);
  answer({ rows: [row(3), row(2)], next: undefined });
  await loading;
  assert.deepEqual(numbers(book), [4, 3, 2]);
  assert.equal(book.get(id(3))?.state, "FILLED");
});

test("a page that is newer than an event wins", async () => {
  const newer = row(3, { state: "FILLED", updated: "2026-11-20T00:00:09Z" });
  let answer: (page: BookPage) => void = () => undefined;
  const book = bookOf(() => new Promise((resolve) => (answer = resolve)));
  const loading = book.load();
  book.apply([event(3, "NEW")], 1);
  answer({ rows: [newer], next: undefined });
  await loading;
  assert.equal(book.get(id(3))?.state, "FILLED");
});

test("reading again forgets rows that are gone, and keeps what events brought meanwhile", async () => {
  let rows = [row(3), row(2), row(1)];
  const book = bookOf(() => Promise.resolve({ rows, next: undefined }));
  await book.load();
  rows = [row(3), row(1)];
  const loading = book.load();
  book.apply([event(4)], 1);
  await loading;
  assert.deepEqual(numbers(book), [4, 3, 1]);
});

test("refusals stand among the orders, those older than the pages only when the pages reach them", async () => {
  const book = bookOf(pages(9, 3), [row(1000, { isRefusal: true }), row(5, { isRefusal: true, id: `${id(5)}x` })]);
  await book.load();
  await settled();
  assert.deepEqual(book.rows.map((each) => each.isRefusal), [true, false, false, false]);
  await book.older();
  assert.equal(book.rows.filter((each) => each.isRefusal).length, 2);
});

test("at most ROWS_MAX rows are kept, the newest", async () => {
  const book = bookOf(pages(ROWS_MAX, ROWS_MAX));
  await book.load();
  book.apply(Array.from({ length: 50 }, (_, at) => event(ROWS_MAX + 1 + at)), 1);
  assert.equal(book.rows.length, ROWS_MAX);
  assert.deepEqual([numbers(book)[0], numbers(book).at(-1), book.isCapped], [ROWS_MAX + 50, 51, true]);
  book.apply([event(7, "FILLED")], 1);
  assert.equal(book.rows.length, ROWS_MAX);
});

test("a page that fails keeps the rows and says why", async () => {
  let fails = false;
  const book = bookOf((cursor) => (fails ? Promise.reject(new Error("cut")) : pages(5, 3)(cursor)));
  await book.load();
  fails = true;
  await book.older();
  assert.deepEqual([numbers(book), book.failure.value?.detail.includes("cut")], [[5, 4, 3], true]);
});
