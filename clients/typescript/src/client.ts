/** The client. */
import createClient, { type Client as Api } from "openapi-fetch";
import {
  ApiError,
  apiError,
  EventMissed,
  NotConfigured,
  NotFinal,
  OpenbellError,
  OutcomeUnknown,
  UnexpectedReply,
  Unreachable,
} from "./errors.js";
import { type EventOptions, follow, type StreamEvent } from "./events.js";
import { type Connection, Exchange, RETRIED_STATUSES, sleep, TimeLimit } from "./exchange.js";
import { market, type Quantity, type Spec } from "./orders.js";
import { deskCommandOf, intentOf, listOf, PATHS } from "./paths.js";
import type { components, paths } from "./schema.js";

export type Schemas = components["schemas"];
export type Action = Schemas["Action"];
/** The action that a command recorded; `replayed` if an earlier request with the same key had recorded it. */
export type Submitted = Action & { replayed: boolean };

/** Options of every command. Fields of the body have the names of the API. */
export interface SubmitOptions {
  /** Default: a new one. */
  idempotencyKey?: string;
  client_reference_id?: string;
  signal?: AbortSignal;
}

export type DeskCommand = Schemas["DeskCommand"];
/** The desk command that was recorded; `replayed` if an earlier request with the same key had recorded it. */
export type SubmittedDeskCommand = DeskCommand & { replayed: boolean };
/** Options of desk commands. */
export type DeskOptions = Pick<SubmitOptions, "idempotencyKey" | "signal">;
export interface CancelAllOptions extends DeskOptions {
  symbol?: string;
  /** Only orders that this API key created. */
  api_key_id?: string;
}

export interface ReplaceOptions extends SubmitOptions {
  /** RFC 3339; the command is not sent to the broker after it. */
  deadline?: string;
}

export interface CreateOptions extends ReplaceOptions {
  route_strategy?: Schemas["RouteStrategy"];
  /** Skip the duplicate-order check. */
  allow_duplicate?: boolean;
}

export interface CallOptions {
  signal?: AbortSignal;
}

export interface WaitOptions extends CallOptions {
  /** Default 30,000. */
  timeoutMillis?: number;
}

type Query<Path extends keyof paths> = paths[Path] extends { get: { parameters: { query?: infer Found } } }
  ? Omit<NonNullable<Found>, "next_cursor" | "limit">
  : never;
export type IntentFilters = Query<typeof PATHS.intents> & CallOptions;
export type OrderFilters = Query<typeof PATHS.orders> & CallOptions;
export type PositionFilters = Query<typeof PATHS.positions> & CallOptions;
export type ProfitFilters = Query<typeof PATHS.profit> & CallOptions;
export type ExecutionFilters = Query<typeof PATHS.executions> & CallOptions;
export interface HistoryOptions extends Omit<EventOptions, "start"> {
  /** Without it and resumeToken the list starts at the oldest event in the log. */
  after_seq?: number;
}

interface Page<Item> {
  data: Item[];
  next_cursor?: string | null;
}

interface Answered<Data> {
  data?: Data;
  error?: unknown;
  response: Response;
}

/** What every request that records something has. */
interface RecordInit {
  params: { path: { account_id: string }; header: { "Idempotency-Key": string } };
  fetch: (request: Request) => Promise<Response>;
  signal?: AbortSignal;
}

// An execution in one of these states does not change any more.
const FINAL_STATES: ReadonlySet<string> = new Set([
  "FILLED",
  "CANCELED",
  "EXPIRED",
  "REJECTED",
  "SKIPPED",
  "FAILED",
  "RECONCILED_OUT",
]);
const FIRST_POLL_MILLIS = 100;
const LONGEST_POLL_MILLIS = 1_000;
const PAGE_LIMIT = 100;

/** Submits, replaces, cancels and follows intents. Every call throws an OpenbellError; see errors.ts. */
export class Client {
  /**
   * Every operation of the OpenAPI document, typed: `client.take(client.api.GET("/v1/brokers"))`. It retries like the
   * methods of this class; a POST without an Idempotency-Key and a request with If-Match are sent once.
   */
  readonly api: Api<paths>;
  readonly #exchange: Exchange;

  constructor(connection: Connection) {
    this.#exchange = new Exchange(connection);
    const { baseUrl, fetch } = this.#exchange;
    // A redirect is not followed: it would carry the key to another address.
    this.api = createClient<paths>({ baseUrl, fetch, redirect: "manual" });
  }

  /** Submit a CREATE intent that buys `symbol`. A number is the quantity of a market order; `limit` makes another. */
  buy(accountId: string, symbol: string, order: Quantity | Spec, options: CreateOptions = {}): Promise<Submitted> {
    return this.createIntent(accountId, symbol, "BUY", order, options);
  }

  /** Submit a CREATE intent that sells shares that the account holds. For a short sale see `createIntent`. */
  sell(accountId: string, symbol: string, order: Quantity | Spec, options: CreateOptions = {}): Promise<Submitted> {
    return this.createIntent(accountId, symbol, "SELL", order, options);
  }

  /**
   * Submit a CREATE intent. Returns when the command is recorded, not when the order is filled.
   *
   * Throws Invalid if the platform or a control refuses the command, Unreachable if it was never sent, and
   * OutcomeUnknown if it may have been recorded: then submit it again with the same idempotencyKey.
   */
  async createIntent(
    accountId: string,
    symbol: string,
    side: Schemas["OrderSide"],
    order: Quantity | Spec,
    options: CreateOptions = {},
  ): Promise<Submitted> {
    const { route_strategy, ...others } = options;
    const payload = { symbol, order_side: side, spec: specOf(order), route_strategy };
    return this.#submit(accountId, { type: "CREATE", payload }, others);
  }

  /** Submit a REPLACE: an order of the same type, whose quantity is the new total, including what has filled. */
  async replaceIntent(
    accountId: string,
    intentId: string,
    order: Quantity | Spec,
    options: ReplaceOptions = {},
  ): Promise<Submitted> {
    const payload = { ref_intent_id: intentId, spec: specOf(order) };
    return this.#submit(accountId, { type: "REPLACE", payload }, options);
  }

  /** Submit a CANCEL of an intent's order. */
  cancelIntent(accountId: string, intentId: string, options: SubmitOptions = {}): Promise<Submitted> {
    return this.#submit(accountId, { type: "CANCEL", payload: { ref_intent_id: intentId } }, options);
  }

  /**
   * Cancel every open order of the account, or of a symbol, or those that an API key created, as one command.
   *
   * Returns when the command is recorded, not when the orders are cancelled: read it with `deskCommand`.
   */
  cancelAll(accountId: string, options: CancelAllOptions = {}): Promise<SubmittedDeskCommand> {
    const { idempotencyKey, signal, ...scope } = options;
    return this.#submitDesk(accountId, { type: "CANCEL_ALL", ...scope }, { idempotencyKey, signal });
  }

  /** Cancel the open orders of a symbol, then place one market order for the position that is left. */
  closePosition(accountId: string, symbol: string, options: DeskOptions = {}): Promise<SubmittedDeskCommand> {
    return this.#submitDesk(accountId, { type: "CLOSE_POSITION", symbol }, options);
  }

  /** Read a desk command, with its orders per outcome. */
  deskCommand(accountId: string, deskCommandId: string, { signal }: CallOptions = {}): Promise<DeskCommand> {
    return this.take(this.api.GET(PATHS.deskCommand, { params: deskCommandOf(accountId, deskCommandId), signal }));
  }

  /** List the desk commands of the account, the newest first. */
  deskCommands(accountId: string, options: CallOptions = {}): AsyncGenerator<DeskCommand, void, undefined> {
    return this.#list(options, (query, init) =>
      this.api.GET(PATHS.deskCommands, { params: listOf(accountId, query), ...init }),
    );
  }

  /** List every order of a desk command with its outcome. */
  deskOrders(
    accountId: string,
    deskCommandId: string,
    options: CallOptions = {},
  ): AsyncGenerator<Schemas["DeskOrder"], void, undefined> {
    const { path } = deskCommandOf(accountId, deskCommandId);
    return this.#list(options, (query, init) => this.api.GET(PATHS.deskOrders, { params: { path, query }, ...init }));
  }

  /** Read the latest action of an intent, with its execution. */
  intent(accountId: string, intentId: string, { signal }: CallOptions = {}): Promise<Action> {
    return this.take(this.api.GET(PATHS.intent, { params: intentOf(accountId, intentId), signal }));
  }

  /** Poll an intent until its execution is final, also through short outages; throws NotFinal if it is still open. */
  async wait(accountId: string, intentId: string, options: WaitOptions = {}): Promise<Action> {
    const { timeoutMillis = 30_000, signal } = options;
    const limit = new TimeLimit(signal);
    limit.restart(timeoutMillis);
    const request = { params: intentOf(accountId, intentId), signal: limit.signal, fetch: this.#exchange.fetchOnce };
    let seen: Action | undefined;
    let failure: OpenbellError | undefined;
    try {
      for (let pause = FIRST_POLL_MILLIS; !limit.signal.aborted; pause = Math.min(pause * 1.5, LONGEST_POLL_MILLIS)) {
        try {
          seen = await this.take(this.api.GET(PATHS.intent, request));
          if (seen.execution && FINAL_STATES.has(seen.execution.status)) return seen;
        } catch (error) {
          if (!isTemporary(error)) throw error;
          failure = error;
        }
        await sleep(pause, limit.signal);
      }
    } finally {
      limit.end();
    }
    signal?.throwIfAborted();
    if (!seen) throw failure;
    const status = seen.execution?.status ?? seen.status;
    throw new NotFinal(`Intent ${intentId} is still ${status} after ${timeoutMillis} ms.`, seen);
  }

  /** List the actions of the account, the oldest first, without executions. */
  intents(accountId: string, filters: IntentFilters = {}): AsyncGenerator<Action, void, undefined> {
    return this.#list(filters, (query, init) =>
      this.api.GET(PATHS.intents, { params: listOf(accountId, query), ...init }),
    );
  }

  /** List every action of an intent, the oldest first. */
  actions(accountId: string, intentId: string, options: CallOptions = {}): AsyncGenerator<Action, void, undefined> {
    const { path } = intentOf(accountId, intentId);
    return this.#list(options, (query, init) => this.api.GET(PATHS.actions, { params: { path, query }, ...init }));
  }

  /** List the current state of orders, of every account or of `account_id`; with `order: "desc"` the newest first. */
  orders(filters: OrderFilters = {}): AsyncGenerator<Schemas["Order"], void, undefined> {
    return this.#list(filters, (query, init) => this.api.GET(PATHS.orders, { params: { query }, ...init }));
  }

  /** List orders at the broker that were not submitted through Openbell. */
  externalOrders(
    accountId: string,
    options: CallOptions = {},
  ): AsyncGenerator<Schemas["ExternalOrder"], void, undefined> {
    return this.#list(options, (query, init) =>
      this.api.GET(PATHS.externalOrders, { params: listOf(accountId, query), ...init }),
    );
  }

  /** List the current state of executions, of every account or of `account_id`; a bust has quantity 0. */
  executions(filters: ExecutionFilters = {}): AsyncGenerator<Schemas["ExecutionRow"], void, undefined> {
    return this.#list(filters, (query, init) => this.api.GET(PATHS.executions, { params: { query }, ...init }));
  }

  /** Read all positions of the account with their cost and value, as of one event. */
  positions(accountId: string, { signal, ...query }: PositionFilters = {}): Promise<Schemas["Positions"]> {
    return this.take(this.api.GET(PATHS.positions, { params: listOf(accountId, query), signal }));
  }

  /** List what the trades of each day and symbol brought, by default those of the last 30 days. */
  profit(accountId: string, filters: ProfitFilters = {}): AsyncGenerator<Schemas["Profit"], void, undefined> {
    return this.#list(filters, (query, init) =>
      this.api.GET(PATHS.profit, { params: listOf(accountId, query), ...init }),
    );
  }

  /** Read the account's cash, equity, buying power and margin, as its broker reported them; null where it does not. */
  balances(accountId: string, { signal }: CallOptions = {}): Promise<Schemas["Balances"]> {
    return this.take(this.api.GET(PATHS.balances, { params: listOf(accountId, undefined), signal }));
  }

  /** List the accounts that the credential may read. */
  accounts(options: CallOptions = {}): AsyncGenerator<Schemas["Account"], void, undefined> {
    return this.#list(options, (query, init) => this.api.GET(PATHS.accounts, { params: { query }, ...init }));
  }

  /** Read who the credential belongs to, and what it may do. */
  me({ signal }: CallOptions = {}): Promise<Schemas["Me"]> {
    return this.take(this.api.GET(PATHS.me, { signal }));
  }

  /**
   * Follow the events of an account, or without one those of every account that the credential may read; reconnects by
   * itself and neither skips nor repeats an event. Events of different accounts are not ordered among each other.
   *
   * Throws EventMissed if events were lost, an ApiError if the platform refuses, and Unreachable after too many failed
   * attempts in a row. Store the `resume_token` of the last event that you handled to continue after a restart;
   * a stream of every account sends it with some events only.
   */
  events(accountId: string | undefined, options: EventOptions = {}): AsyncGenerator<StreamEvent, void, undefined> {
    if (options.resumeToken && options.start && options.start !== "LIVE") {
      throw new NotConfigured("Both resumeToken and start set where to begin.", "Leave one of them out.");
    }
    const open = async (token: string | undefined, signal: AbortSignal): Promise<Response> => {
      const start = token ? undefined : (options.start ?? "LIVE");
      let opened: Response | undefined;
      const fetch = async (request: Request): Promise<Response> => {
        opened = await this.#exchange.open(request, signal);
        // Only the request is openapi-fetch's: it would read a refusal, and has nothing to parse in a stream.
        return new Response(null, { status: 204 });
      };
      const headers = { accept: "text/event-stream", "last-event-id": token };
      const query = { account_id: accountId, ...listsOf(options), start };
      await this.api.GET(PATHS.events, { params: { query }, headers, fetch });
      return opened as Response;
    };
    return follow(open, `${this.#exchange.baseUrl}${PATHS.events}`, this.#exchange.timeoutMillis, options);
  }

  /** List past events up to now, the oldest first; throws EventMissed if some are no longer in the log. */
  async *eventHistory(
    accountId: string,
    options: HistoryOptions = {},
  ): AsyncGenerator<Schemas["Event"], void, undefined> {
    const { after_seq, resumeToken, signal } = options;
    let from: { after_seq?: number; next_cursor?: string } = resumeToken ? { next_cursor: resumeToken } : { after_seq };
    for (;;) {
      const params = { query: { account_id: accountId, limit: PAGE_LIMIT, ...listsOf(options), ...from } };
      const page = (await this.take(this.api.GET(PATHS.events, { params, signal }))) as Schemas["EventPage"];
      if (page.gap) {
        const { first_seq, last_seq, resume_token, reason } = page.gap;
        throw new EventMissed(first_seq - 1, last_seq, resume_token, reason);
      }
      yield* page.data;
      if (!page.next_cursor) return;
      from = { next_cursor: page.next_cursor };
    }
  }

  /** Every item of a list, page after page; `read` gets the page at a cursor, at first the first page. */
  async *items<Item>(
    read: (next_cursor: string | undefined) => Promise<Answered<Page<Item>>>,
  ): AsyncGenerator<Item, void, undefined> {
    let cursor: string | undefined;
    for (;;) {
      const page = await this.take(read(cursor));
      yield* page.data;
      if (!page.next_cursor) return;
      if (page.next_cursor === cursor) throw new UnexpectedReply("A page named itself as the next one.");
      cursor = page.next_cursor;
    }
  }

  /** The data of an answer; throws an ApiError if the platform refused. */
  async take<Data>(answer: Promise<Answered<Data>>): Promise<Data> {
    try {
      const { data, error, response } = await answer;
      if (!response.ok) throw apiError(response, error);
      return data as Data;
    } catch (error) {
      if (error instanceof SyntaxError) throw new UnexpectedReply(`The reply cannot be read: ${error.message}.`, error);
      throw error;
    }
  }

  #list<Item, Filters extends CallOptions>(
    { signal, ...filters }: Filters,
    read: (
      query: Omit<Filters, "signal"> & { limit: number; next_cursor?: string },
      init: { signal?: AbortSignal },
    ) => Promise<Answered<Page<Item>>>,
  ): AsyncGenerator<Item, void, undefined> {
    return this.items((next_cursor) =>
      read({ ...filters, limit: PAGE_LIMIT, ...(next_cursor && { next_cursor }) }, { signal }),
    );
  }

  #submit(accountId: string, command: Schemas["Submit"]["command"], options: CreateOptions): Promise<Submitted> {
    const { idempotencyKey, signal, ...others } = options;
    return this.#record(idempotencyKey, signal, accountId, (init) =>
      this.api.POST(PATHS.intents, { ...init, body: { command, ...others } }),
    );
  }

  #submitDesk(
    accountId: string,
    body: Schemas["SubmitDeskCommand"],
    { idempotencyKey, signal }: DeskOptions,
  ): Promise<SubmittedDeskCommand> {
    return this.#record(idempotencyKey, signal, accountId, (init) =>
      this.api.POST(PATHS.deskCommands, { ...init, body }),
    );
  }

  async #record<Data>(
    idempotencyKey: string = newKey(),
    signal: AbortSignal | undefined,
    account_id: string,
    post: (init: RecordInit) => Promise<Answered<Data>>,
  ): Promise<Data & { replayed: boolean }> {
    if (!/^[!-~]{1,255}$/.test(idempotencyKey)) {
      throw new NotConfigured(
        "idempotencyKey must be 1 to 255 visible ASCII characters without spaces.",
        "Use another key.",
      );
    }
    signal?.throwIfAborted();
    const params = { path: { account_id }, header: { "Idempotency-Key": idempotencyKey } };
    const answer = post({ params, fetch: this.#exchange.submit, signal });
    try {
      const recorded = await this.take(answer);
      return { ...recorded, replayed: (await answer).response.headers.get("idempotency-replayed") === "true" };
    } catch (error) {
      if (error instanceof UnexpectedReply) throw new OutcomeUnknown(error.detail, idempotencyKey, error);
      throw error;
    }
  }
}

/** The types and symbols of events as a query has them. */
function listsOf({ types, symbols }: EventOptions): { types?: string; symbols?: string } {
  return { types: types?.join() || undefined, symbols: symbols?.join() || undefined };
}

function specOf(order: Quantity | Spec): Spec {
  return typeof order === "object" ? order : market(order);
}

function isTemporary(error: unknown): error is OpenbellError {
  return error instanceof Unreachable || (error instanceof ApiError && RETRIED_STATUSES.has(error.status));
}

/** 128 random bits. Node 18 has no global crypto; there the engine's own generator is random enough for a key. */
function newKey(): string {
  const bytes = new Uint8Array(16);
  if (globalThis.crypto) crypto.getRandomValues(bytes);
  else bytes.forEach((_, at) => (bytes[at] = Math.random() * 256));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
