/**
 * The newest rows of one question to the server: pages of orders, newest first, then events. The rows are ordered by
 * their ids, which increase with time; an event costs one binary search.
 */
import { signal } from "@preact/signals";
import type { StreamEvent } from "@openbell/client";
import { type Failure, failureOf } from "../api/failures";
import { afterEvent, idOf, type Row } from "./rows";

export const ROWS_MAX = 3000;
const RESERVE_MAX = 2000;

export interface BookPage {
  rows: Row[];
  next: string | undefined;
}

export interface Source {
  page: (cursor: string | undefined) => Promise<BookPage>;
  /** Rows that the pages do not have: commands that a control refused. */
  refusals?: () => Promise<Row[]>;
  /** Whether a row answers the question. */
  accepts: (row: Row) => boolean;
}

/** The place of an id in rows that are ordered newest first: of its row, or where it would be. */
export function placeOf(rows: readonly Row[], id: string): number {
  let [low, high] = [0, rows.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle] as Row).id > id) low = middle + 1;
    else high = middle;
  }
  return low;
}

export class Book {
  /** Newest first. Changed in place; `version` tells that it was. */
  readonly rows: Row[] = [];
  readonly version = signal(0);
  readonly isLoading = signal(false);
  readonly hasLoaded = signal(false);
  readonly failure = signal<Failure | undefined>(undefined);
  /** True if there are no older rows at the server. */
  isComplete = false;
  /** True if older rows were left out because there are too many. */
  isCapped = false;
  readonly #byId = new Map<string, Row>();
  /** Rows older than the pages that were read; they are shown when the pages reach them. */
  readonly #reserve = new Map<string, Row>();
  /** The oldest id down to which nothing is missing. */
  #horizon = "~";
  /** Rows that events changed since the newest page was asked for. */
  readonly #fresh = new Set<string>();
  #cursor: string | undefined;
  #round = 0;
  #isDirty = false;
  readonly #source: Source;
  readonly #schedule: (act: () => void) => void;

  constructor(source: Source, schedule: (act: () => void) => void) {
    this.#source = source;
    this.#schedule = schedule;
  }

  get(id: string): Row | undefined {
    return this.#byId.get(id) ?? this.#reserve.get(id);
  }

  /** Read the newest page; what is shown stays until it is there. */
  async load(): Promise<void> {
    const round = ++this.#round;
    this.isLoading.value = true;
    this.#fresh.clear();
    try {
      const refusals = this.#readRefusals();
      const page = await this.#source.page(undefined);
      if (round !== this.#round) return;
      this.#restart();
      this.#take(page);
      this.hasLoaded.value = true;
      this.failure.value = undefined;
      // They are fewer and slower: the orders are shown before them.
      void refusals.then((rows) => {
        if (round === this.#round) for (const row of rows) if (!this.get(row.id)) this.#put(row);
        this.#cap();
      });
    } catch (error) {
      if (round === this.#round) this.failure.value = failureOf(error);
    } finally {
      if (round === this.#round) {
        this.isLoading.value = false;
        this.#touch();
      }
    }
  }

  async #readRefusals(): Promise<Row[]> {
    try {
      return (await this.#source.refusals?.()) ?? [];
    } catch (error) {
      this.failure.value = failureOf(error);
      return [];
    }
  }

  /** Read one more page of older rows. */
  async older(): Promise<void> {
    if (this.isLoading.value || this.isComplete || this.isCapped || !this.hasLoaded.value) return;
    const round = this.#round;
    this.isLoading.value = true;
    try {
      const page = await this.#source.page(this.#cursor);
      if (round !== this.#round) return;
      this.#take(page);
      this.failure.value = undefined;
    } catch (error) {
      if (round === this.#round) this.failure.value = failureOf(error);
    } finally {
      if (round === this.#round) this.isLoading.value = false;
    }
  }

  /** Returns the ids of the rows that changed. */
  apply(events: readonly StreamEvent[], now: number): string[] {
    const changed: string[] = [];
    for (const event of events) {
      const id = idOf(event);
      if (id === undefined) continue;
      const before = this.get(id);
      const after = afterEvent(before, event, now);
      if (!after || after === before || (!before && !this.#source.accepts(after))) continue;
      this.#put(after);
      this.#fresh.add(id);
      changed.push(id);
    }
    this.#cap();
    return changed;
  }

  /** Rows that events changed while the page was read stay: the page may be older than they are. */
  #restart(): void {
    const fresh = [...this.#fresh].map((id) => this.get(id)).filter((row) => row !== undefined);
    this.#byId.clear();
    this.#reserve.clear();
    this.rows.length = 0;
    this.isComplete = false;
    this.isCapped = false;
    this.#horizon = "~";
    for (const row of fresh) this.#reserve.set(row.id, row);
  }

  #take(page: BookPage): void {
    this.#cursor = page.next;
    this.isComplete = page.next === undefined;
    this.#horizon = this.isComplete ? "" : (page.rows.at(-1)?.id ?? this.#horizon);
    for (const row of page.rows) {
      const known = this.get(row.id);
      if (known && row.updated < known.updated) continue;
      this.#reserve.delete(row.id);
      this.#put(row);
    }
    for (const [id, row] of this.#reserve) {
      if (id < this.#horizon) continue;
      this.#reserve.delete(id);
      this.#put(row);
    }
    this.#cap();
    // At once, not with the next frame: whoever sees that the page was read must see its rows.
    this.version.value++;
  }

  #put(row: Row): void {
    if (row.id < this.#horizon) {
      if (this.#reserve.size >= RESERVE_MAX && !this.#reserve.has(row.id)) return;
      this.#reserve.set(row.id, row);
      return;
    }
    const isKnown = this.#byId.has(row.id);
    this.#byId.set(row.id, row);
    const place = placeOf(this.rows, row.id);
    if (isKnown) this.rows[place] = row;
    else this.rows.splice(place, 0, row);
    this.#touch();
  }

  #cap(): void {
    if (this.rows.length <= ROWS_MAX) return;
    for (const row of this.rows.splice(ROWS_MAX)) this.#byId.delete(row.id);
    this.#horizon = (this.rows.at(-1) as Row).id;
    this.isCapped = true;
    this.isComplete = false;
    this.#reserve.clear();
  }

  #touch(): void {
    if (this.#isDirty) return;
    this.#isDirty = true;
    this.#schedule(() => {
      this.#isDirty = false;
      this.version.value++;
    });
  }
}
