/** The lists behind the blotter, and what they have in common: the events. */
import type { StreamEvent } from "@openbell/client";
import { effect, signal } from "@preact/signals";
import { signedOut } from "../../api/api";
import { hasBegun, listen } from "../../live/live";
import { Book } from "../../live/book";
import { type Filters, statusQuery } from "./filters";
import { sourceOf } from "./source";

const BIN_MILLIS = 5_000;
const BINS = 60;
// The page is read after the stream began, so that nothing falls between; it does not wait longer than this.
const STREAM_WAIT_MILLIS = 700;

const perFrame = (act: () => void) => {
  requestAnimationFrame(act);
};

/** Fills of the last five minutes since the page was opened, in steps of five seconds. */
export class Fills {
  readonly version = signal(0);
  readonly #bins = new Map<number, number>();

  add(events: readonly StreamEvent[], account: string, now: number): void {
    const trades = events.filter(
      ({ broker_trade, account_id }) => broker_trade?.kind === "NORMAL" && (!account || account_id === account),
    );
    if (!trades.length) return;
    const bin = Math.floor(now / BIN_MILLIS);
    this.#bins.set(bin, (this.#bins.get(bin) ?? 0) + trades.length);
    for (const each of this.#bins.keys()) if (each <= bin - BINS) this.#bins.delete(each);
    this.version.value++;
  }

  counts(now: number): number[] {
    const last = Math.floor(now / BIN_MILLIS);
    return Array.from({ length: BINS }, (_, at) => this.#bins.get(last - BINS + 1 + at) ?? 0);
  }
}

export class Books {
  readonly base: Book;
  /** Every order in doubt, however old: none may be missed. */
  readonly unknown: Book;
  readonly fills = new Fills();
  /** The ids that changed since the list was paused; undefined if it is not. */
  readonly waiting = signal<ReadonlySet<string> | undefined>(undefined);
  readonly #deep = new Map<string, Book>();
  readonly #filters: Filters;
  #stop: (() => void) | undefined;

  constructor(filters: Filters) {
    this.#filters = filters;
    this.base = new Book(sourceOf(filters, {}, true), perFrame);
    this.unknown = new Book(sourceOf(filters, { certainty: "UNKNOWN" }, false), perFrame);
  }

  /** The list that has the rows of these states. */
  of({ states }: Filters): Book {
    const query = statusQuery(states);
    if (!query || (this.base.hasLoaded.value && this.base.isComplete)) return this.base;
    if (query.certainty) return this.unknown;
    const name = query.status ?? "";
    const known = this.#deep.get(name);
    if (known) return known;
    const made = new Book(sourceOf(this.#filters, query, states.has("REFUSED")), perFrame);
    this.#deep.set(name, made);
    void made.load();
    return made;
  }

  start(): void {
    const load = () => {
      for (const book of this.#all()) void book.load();
    };
    const waits = hasBegun.peek() ? undefined : setTimeout(load, STREAM_WAIT_MILLIS);
    const end = listen({
      events: (events) => this.#apply(events),
      begun: () => {
        clearTimeout(waits);
        load();
      },
    });
    if (waits === undefined) load();
    // What failed while nobody was signed in is read again after the sign-in.
    const endRetries = effect(() => {
      if (signedOut.value) return;
      for (const book of this.#all()) if (book.failure.peek() && !book.isLoading.peek()) void book.load();
    });
    this.#stop = () => {
      clearTimeout(waits);
      endRetries();
      end();
    };
  }

  stop(): void {
    this.#stop?.();
  }

  pause(isPaused: boolean): void {
    this.waiting.value = isPaused ? new Set() : undefined;
  }

  #all(): Book[] {
    return [this.base, this.unknown, ...this.#deep.values()];
  }

  #apply(events: readonly StreamEvent[]): void {
    const now = performance.now();
    const changed = this.#all().flatMap((book) => book.apply(events, now));
    this.fills.add(events, this.#filters.account, Date.now());
    const waiting = this.waiting.peek();
    if (waiting && changed.length) this.waiting.value = new Set([...waiting, ...changed]);
  }
}
