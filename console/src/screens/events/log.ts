/** The log of one account, newest first, as far as it was read; kept current by the stream. */
import { signal } from "@preact/signals";
import type { Schemas, StreamEvent } from "@openbell/client";
import { api, type Failure, failureOf, take } from "../../api/api";
import { type Filters, isShown } from "./filters";
import type { Missing } from "./gaps";

export type LogEvent = Schemas["Event"];

const PAGE = 100;
const ROWS_MAX = 2000;
/** How far back one reading looks while a filter leaves most events out. */
const FILTERED_SPAN = 2000;
const NO_EVENT_IS_AFTER = 999_999_999_999_999;

export class EventLog {
  readonly version = signal(0);
  readonly failure = signal<Failure | undefined>(undefined);
  readonly isLoading = signal(false);
  readonly hasLoaded = signal(false);
  /** Newest first. */
  rows: LogEvent[] = [];
  /** Missing because they are no longer stored, or because the stream did not bring them. */
  gaps: Missing[] = [];
  newest = 0;
  oldestStored = 0;
  /** Nothing before this number was read; events are read down to `floor`. */
  #low = 0;
  #round = 0;
  readonly #account: string;
  readonly #filters: Filters;

  constructor(account: string, filters: Filters) {
    this.#account = account;
    this.#filters = filters;
  }

  get #floor(): number {
    return Math.max(this.#filters.from, this.oldestStored - 1, 0);
  }

  get isComplete(): boolean {
    return this.hasLoaded.peek() && this.#low <= this.#floor;
  }

  get isCapped(): boolean {
    return this.rows.length >= ROWS_MAX;
  }

  async #page(after_seq: number): Promise<Schemas["EventPage"]> {
    const { types, symbol, intent } = this.#filters;
    const query = {
      account_id: this.#account,
      after_seq,
      limit: PAGE,
      ...(types.length && { types: types.join() }),
      ...(symbol && { symbols: symbol }),
      ...(intent && { intent_id: intent }),
    };
    return (await take(api.GET("/v1/events", { params: { query } }))) as Schemas["EventPage"];
  }

  load(): Promise<void> {
    return this.#read(async (round) => {
      const { newest_seq, oldest_seq } = await this.#page(NO_EVENT_IS_AFTER);
      if (round !== this.#round) return;
      this.rows = [];
      this.gaps = [];
      this.newest = newest_seq;
      this.oldestStored = oldest_seq;
      this.#low = newest_seq;
      if (newest_seq) await this.#before(newest_seq, round);
      this.hasLoaded.value = true;
    });
  }

  older(): Promise<void> {
    if (this.isLoading.peek() || this.isComplete || this.isCapped) return Promise.resolve();
    return this.#read((round) => this.#before(this.#low, round));
  }

  async #read(act: (round: number) => Promise<void>): Promise<void> {
    const round = ++this.#round;
    this.isLoading.value = true;
    try {
      await act(round);
      if (round === this.#round) this.failure.value = undefined;
    } catch (error) {
      if (round === this.#round) this.failure.value = failureOf(error);
    }
    if (round !== this.#round) return;
    this.isLoading.value = false;
    this.version.value++;
  }

  /** Read the events up to `high` that are one page or one span before it. */
  async #before(high: number, round: number): Promise<void> {
    const { types, symbol, intent } = this.#filters;
    const span = intent ? high : types.length || symbol ? FILTERED_SPAN : PAGE;
    const low = Math.max(this.#floor, high - span);
    const found: LogEvent[] = [];
    for (let after = low; after < high; ) {
      const page = await this.#page(after);
      if (round !== this.#round) return;
      if (page.gap) this.gaps.push({ first: page.gap.first_seq, last: page.gap.last_seq, reason: page.gap.reason ?? "RETENTION" });
      const fresh = page.data.filter(({ account_seq }) => account_seq > after && account_seq <= high);
      found.push(...fresh);
      const last = page.data.at(-1)?.account_seq;
      const next = page.gap && page.gap.last_seq >= after ? Math.max(page.gap.last_seq, last ?? 0) : last;
      if (!page.next_cursor || next === undefined || next <= after || found.length >= ROWS_MAX) break;
      after = next;
    }
    this.#low = low;
    const have = new Set(this.rows.map(({ account_seq }) => account_seq));
    const all = [...this.rows, ...found.filter(({ account_seq }) => !have.has(account_seq))];
    this.rows = all.sort((a, b) => b.account_seq - a.account_seq);
  }

  /** Events of the stream, of any account; the stream is not filtered. */
  apply(events: readonly StreamEvent[]): number {
    let added = 0;
    for (const event of events) {
      if (event.account_id !== this.#account || event.is_snapshot || event.account_seq <= this.newest) continue;
      if (this.newest && event.account_seq > this.newest + 1) {
        this.gaps.push({ first: this.newest + 1, last: event.account_seq - 1, reason: "" });
      }
      this.newest = event.account_seq;
      if (!isShown(event as unknown as LogEvent, this.#filters)) continue;
      const { is_snapshot: _, ...row } = event;
      // Its token is of the stream of all accounts; that of this account is read when it is selected.
      this.rows = [{ ...row, resume_token: "" } as unknown as LogEvent, ...this.rows].slice(0, ROWS_MAX);
      added++;
    }
    if (added) this.version.value++;
    return added;
  }
}

/** The same event as the pages of the log have it, with the resume token of its account. */
export async function readEvent({ account_id, account_seq }: LogEvent, signal: AbortSignal): Promise<LogEvent | undefined> {
  const query = { account_id, after_seq: account_seq - 1, limit: 1 };
  const page = (await take(api.GET("/v1/events", { params: { query }, signal }))) as Schemas["EventPage"];
  return page.data.find((each) => each.account_seq === account_seq);
}
