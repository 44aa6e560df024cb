/** Follows an account's events: reconnects, resumes exactly, and checks that no event is missing or repeated. */
import { EventMissed, OpenbellError, Unreachable } from "./errors.js";
import { backoff, errorOf, RETRIED_STATUSES, reasonOf, sleep, TimeLimit } from "./exchange.js";
import { type Frame, FrameParser } from "./frames.js";
import type { components } from "./schema.js";

type Schemas = components["schemas"];
export type EventType = Schemas["Event"]["type"];

/** An event, or a part of the state with which a PRIMED stream begins. */
export interface StreamEvent extends Omit<Schemas["Event"], "type" | "event_id" | "occurred_at"> {
  type: EventType | "BROKER_POSITION" | "PRIMED";
  /** The same on every transport; absent if it is not an event of the log. */
  event_id?: string;
  occurred_at?: string;
  /** True for the state at account_seq at the start of a PRIMED stream. */
  is_snapshot: boolean;
  broker_position?: { symbol: string; quantity: string; updated_at?: string };
  primed?: { orders?: number; positions?: number };
}

export interface EventOptions {
  /** Where to begin without a resumeToken; default LIVE. */
  start?: "LIVE" | "PRIMED" | "BEGINNING";
  /** Continue with exactly the event after the one that had this resume_token. */
  resumeToken?: string;
  /** Default: all. */
  types?: readonly EventType[];
  /** Only events of these symbols, and those of no symbol. */
  symbols?: readonly string[];
  /** Ends the stream. */
  signal?: AbortSignal;
  /** How many attempts in a row may fail after the stream worked once; default 15, about a minute. */
  failuresMax?: number;
  /** Called after every connection, heartbeat and cut. */
  onConnection?: (connection: ConnectionReport) => void;
}

export interface ConnectionReport {
  isOpen: boolean;
  /** Where the stream continues; undefined before the first frame that has a token. */
  resumeToken: string | undefined;
  /** Why it is not open. */
  reason?: string;
}

/** Opens one connection, after the token if there is one. */
export type Open = (resumeToken: string | undefined, signal: AbortSignal) => Promise<Response>;

// The platform sends a heartbeat every 10 seconds, so a connection that is silent for longer is dead.
const SILENCE_MILLIS = 30_000;
// A stream that worked before is retried for about a minute; a first connection fails sooner.
const FAILURES_MAX = 15;
const FIRST_FAILURES_MAX = 3;
const FIRST_PAUSE_MILLIS = 100;
// An event's frame has the name of its field, which is that of its type in lower case.
const EVENT_FRAMES: ReadonlySet<string> = new Set([
  "broker_order",
  "intent_action",
  "account_changed",
  "external_order",
  "position_adjusted",
  "broker_trade",
  "control_changed",
  "intent_refused",
  "balances_changed",
  "loss_limit_exceeded",
]);
const SNAPSHOT_FRAMES: ReadonlySet<string> = new Set(["broker_order", "external_order", "broker_position"]);

/** The position of a stream over all its connections. */
export class Position {
  resumeToken: string | undefined;
  #failures = 0;
  #failuresMax = FIRST_FAILURES_MAX;
  #snapshot: StreamEvent[] | undefined;
  readonly #laterFailuresMax: number;
  /** Of each account, the number up to which nothing is missing; a stream of one account has one entry. */
  readonly #positions = new Map<unknown, number>();
  readonly #returned = new Map<unknown, number>();

  constructor(options: EventOptions) {
    this.resumeToken = options.resumeToken;
    this.#laterFailuresMax = options.failuresMax ?? FAILURES_MAX;
    this.#snapshot = options.start === "PRIMED" && !options.resumeToken ? [] : undefined;
  }

  /** Start on a new connection; an incomplete snapshot is discarded. */
  begin(): void {
    if (this.#snapshot) this.#snapshot = [];
  }

  /** The events of a frame: usually one, none if it only reports the position. Throws EventMissed. */
  accept(frame: Frame): StreamEvent[] {
    this.#failures = 0;
    this.#failuresMax = this.#laterFailuresMax;
    if (this.#snapshot) return this.#prime(this.#snapshot, frame);
    if (frame.type === "gap") {
      const gap = frame.data.gap as Record<string, unknown>;
      this.resumeToken = frame.id || this.resumeToken;
      throw new EventMissed(Number(gap.first_seq) - 1, Number(gap.last_seq), this.resumeToken, String(gap.reason));
    }
    // A frame type that this client does not know must not move the position: the frame may report a gap.
    const isEvent = EVENT_FRAMES.has(frame.type);
    if (!isEvent && frame.type !== "subscribed" && frame.type !== "heartbeat") return [];
    const account = frame.data.account_id;
    if (frame.data.account_seq === undefined) {
      // Of a stream of all accounts: the frame reports the position of none.
      this.resumeToken = frame.id || this.resumeToken;
      return [];
    }
    const position = this.#positions.get(account);
    const [seq, prev] = [Number(frame.data.account_seq), Number(frame.data.prev_seq)];
    if (position !== undefined && prev > position) throw new EventMissed(position, prev, this.resumeToken);
    this.resumeToken = frame.id || this.resumeToken;
    // After a reconnect, only received events move the position, not the number in the subscribed frame.
    if (frame.type !== "subscribed" || (seq && position === undefined)) {
      this.#positions.set(account, Math.max(seq, position ?? 0));
    }
    if (!isEvent || seq <= (this.#returned.get(account) ?? 0)) return [];
    this.#returned.set(account, seq);
    return [eventOf(frame, false)];
  }

  /** Milliseconds to wait before the next attempt; throws Unreachable if the attempts are used up. */
  pauseAfter(reason: string, url: string): number {
    this.#failures++;
    if (this.#failures > this.#failuresMax) {
      throw new Unreachable(`The event stream cannot be reached: ${reason}.`, url, undefined, this.resumeToken);
    }
    return backoff(FIRST_PAUSE_MILLIS, this.#failures - 1);
  }

  /** The snapshot, once it is complete: a connection that ends earlier must not return a part of it. */
  #prime(snapshot: StreamEvent[], frame: Frame): StreamEvent[] {
    if (SNAPSHOT_FRAMES.has(frame.type)) snapshot.push(eventOf(frame, true));
    if (frame.type !== "primed") return [];
    snapshot.push(eventOf(frame, false));
    this.#positions.set(frame.data.account_id, Number(frame.data.account_seq));
    this.#snapshot = undefined;
    this.resumeToken = frame.id;
    return snapshot;
  }
}

/** Events until the signal ends it. Throws EventMissed, an ApiError if it is refused, or Unreachable. */
export async function* follow(
  open: Open,
  url: string,
  timeoutMillis: number,
  options: EventOptions,
): AsyncGenerator<StreamEvent, void, undefined> {
  const position = new Position(options);
  while (!options.signal?.aborted) {
    let reason = "it ended at once";
    const limit = new TimeLimit(options.signal);
    try {
      limit.restart(timeoutMillis);
      const response = await open(position.resumeToken, limit.signal);
      if (response.status === 200 && response.body) {
        position.begin();
        yield* events(response.body.getReader(), position, limit, options.onConnection);
      } else {
        reason = `it answers ${response.status}`;
        if (!RETRIED_STATUSES.has(response.status)) throw await errorOf(response);
      }
    } catch (error) {
      if (error instanceof OpenbellError) throw error;
      reason = limit.expired ? "nothing came in time" : reasonOf(error);
    } finally {
      limit.cut();
      options.onConnection?.({ isOpen: false, resumeToken: position.resumeToken, reason });
    }
    if (!options.signal?.aborted) await sleep(position.pauseAfter(reason, url), options.signal);
  }
}

async function* events(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  position: Position,
  limit: TimeLimit,
  onConnection: EventOptions["onConnection"],
): AsyncGenerator<StreamEvent, void, undefined> {
  const parser = new FrameParser();
  for (;;) {
    limit.restart(SILENCE_MILLIS);
    const { done, value } = await reader.read();
    // The time that the caller takes for an event does not count.
    limit.pause();
    if (done) return;
    for (const frame of parser.push(value)) {
      yield* position.accept(frame);
      if (frame.type === "subscribed" || frame.type === "heartbeat") {
        onConnection?.({ isOpen: true, resumeToken: position.resumeToken });
      }
    }
  }
}

function eventOf(frame: Frame, isSnapshot: boolean): StreamEvent {
  const named = { type: frame.type.toUpperCase(), resume_token: frame.id, is_snapshot: isSnapshot };
  return { ...frame.data, ...named } as StreamEvent;
}
