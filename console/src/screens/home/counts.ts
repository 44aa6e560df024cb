/** Counts of the overview, kept current by events. */
import type { Schemas, StreamEvent } from "@openbell/client";

const REMEMBERED_MAX = 5_000;
const CLOSED = new Set(["FILLED", "CANCELED", "EXPIRED", "REJECTED", "SKIPPED", "FAILED", "RECONCILED_OUT"]);
const ENDED = new Set(["REFUSED", "SKIPPED", "FAILED", "ABANDONED"]);
const MINUTE = 60_000;
/** How many minutes of fills are shown. */
export const FILL_MINUTES = 15;

/** Whether the order of the event is open after it; undefined if the event does not say. */
function isOpenAfter({ broker_order, intent_action }: StreamEvent): boolean | undefined {
  if (broker_order) return !CLOSED.has(broker_order.status);
  if (intent_action?.action_type !== "CREATE") return undefined;
  if (intent_action.status === "QUEUED") return true;
  return ENDED.has(intent_action.status) ? false : undefined;
}

/** How many orders of each account are open. */
export class OpenOrders {
  readonly #counts = new Map<string, number>();
  /** Whether an order was open after its last event; the oldest are forgotten. */
  readonly #known = new Map<string, boolean>();

  reset(overviews: readonly Schemas["AccountOverview"][]): void {
    this.#counts.clear();
    this.#known.clear();
    for (const each of overviews) this.#counts.set(each.account_id, each.open_orders);
  }

  of(account: string): number {
    return Math.max(0, this.#counts.get(account) ?? 0);
  }

  apply(event: StreamEvent): void {
    const id = event.broker_order?.intent_id ?? event.intent_action?.intent_id;
    const isOpen = isOpenAfter(event);
    if (id === undefined || isOpen === undefined) return;
    // An order that was not seen yet is in the count, unless this event is about its beginning.
    const isNew = event.intent_action?.status === "QUEUED";
    const wasOpen = this.#known.get(id) ?? !isNew;
    if (wasOpen !== isOpen) {
      this.#counts.set(event.account_id, (this.#counts.get(event.account_id) ?? 0) + (isOpen ? 1 : -1));
    }
    this.#known.delete(id);
    this.#known.set(id, isOpen);
    if (this.#known.size > REMEMBERED_MAX) this.#known.delete(this.#known.keys().next().value as string);
  }
}

/** When executions were recorded: by account the last one, and those of the last minutes. */
export class FillTimes {
  readonly #last = new Map<string, string>();
  #times: number[] = [];
  /** Nothing is known before this time, in milliseconds; 0 if everything is. */
  knownSince = 0;

  reset(newestFirst: readonly Pick<Schemas["ExecutionRow"], "account_id" | "recorded_at">[], isAll: boolean): void {
    this.#last.clear();
    this.#times = [];
    for (const { account_id, recorded_at } of newestFirst.toReversed()) this.add(account_id, recorded_at);
    this.knownSince = isAll ? 0 : (this.#times[0] ?? 0);
  }

  add(account: string, time: string): void {
    const before = this.#last.get(account);
    if (before === undefined || time > before) this.#last.set(account, time);
    this.#times.push(Date.parse(time));
  }

  last(account: string): string | undefined {
    return this.#last.get(account);
  }

  /** Fills of each of the last minutes, the current one last. */
  byMinute(now: number): number[] {
    const first = Math.floor(now / MINUTE) - FILL_MINUTES + 1;
    this.#times = this.#times.filter((time) => time >= first * MINUTE);
    const counts = new Array<number>(FILL_MINUTES).fill(0);
    for (const time of this.#times) {
      const at = Math.min(FILL_MINUTES - 1, Math.floor(time / MINUTE) - first);
      counts[at] = (counts[at] ?? 0) + 1;
    }
    return counts;
  }

  lastMinute(now: number): number {
    return this.#times.filter((time) => time > now - MINUTE).length;
  }
}
