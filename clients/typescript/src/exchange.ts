/** Sends requests: the credential, a timeout for each attempt, and retries of what is safe to send twice. */
import { type ApiError, apiError, NotConfigured, OutcomeUnknown, UnexpectedReply, Unreachable } from "./errors.js";

export interface Connection {
  /** Default: the address of a local platform. */
  baseUrl?: string;
  /** An API key. It is a secret: keep it out of code that runs in a browser. */
  apiKey?: string;
  /** A user's or a service account's token, or a function that returns the current one; sent instead of the key. */
  accessToken?: string | (() => string | Promise<string>);
  /**
   * Sent with every request. With them no key or token is needed: for a page whose server adds the credential, so that
   * the page never has it.
   */
  headers?: Readonly<Record<string, string>>;
  /** Per attempt, to the last byte of the reply; default 10,000. */
  timeoutMillis?: number;
  /** Default: the global fetch. */
  fetch?: typeof globalThis.fetch;
}

export const RETRIES = 3;
export const RETRIED_STATUSES: ReadonlySet<number> = new Set([429, 500, 502, 503, 504]);
export const LONGEST_PAUSE_MILLIS = 5_000;
const FIRST_PAUSE_MILLIS = 200;
const RETRIED_CODES: ReadonlySet<string> = new Set(["concurrent_change", "idempotency_in_flight"]);
// A failure with this code is sent before anything is recorded.
const NOT_RECORDED = "overloaded";
// These refusals depend on the command alone, so an earlier attempt with the same command was refused as well.
const SETTLING_STATUSES: ReadonlySet<number> = new Set([400, 413, 415, 422]);
// Node reports these before a byte of the request leaves. A browser does not show the reason.
const NEVER_SENT: ReadonlySet<unknown> = new Set(["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"]);

/** The connection failed; `sent` is true if the request may have arrived. */
export class NoReply {
  constructor(
    readonly reason: string,
    readonly sent: boolean,
    readonly cause: unknown,
  ) {}
}

interface Ended {
  answer: Response | NoReply;
  /** Why an earlier attempt may have taken effect although the answer does not show it; empty if none may. */
  doubt: string;
}

export class Exchange {
  readonly baseUrl: string;
  readonly timeoutMillis: number;
  readonly #connection: Connection;

  constructor(connection: Connection) {
    this.#connection = connection;
    this.baseUrl = (connection.baseUrl ?? "http://127.0.0.1:8080").replace(/\/+$/, "");
    this.timeoutMillis = connection.timeoutMillis ?? 10_000;
    if (!/^https?:\/\/[^/\s]+(\/\S*)?$/.test(this.baseUrl)) {
      throw new NotConfigured(`"${this.baseUrl}" is not an address.`, "Write it like https://openbell.example.com.");
    }
    const secret = connection.accessToken ?? connection.apiKey;
    if ((!secret && !connection.headers) || (typeof secret === "string" && !/^[!-~]+$/.test(secret))) {
      throw new NotConfigured(
        "No valid API key or access token was given.",
        "Pass apiKey or accessToken, without quotes or spaces.",
      );
    }
    if (!(this.timeoutMillis > 0)) {
      throw new NotConfigured(
        "The timeout must be greater than zero.",
        "Pass the milliseconds that a request may take.",
      );
    }
  }

  /** Send; again only if a second time has no further effect. */
  readonly fetch = async (request: Request): Promise<Response> => {
    const { answer } = await this.#exchange(request, isSafe(request) ? RETRIES : 0);
    if (answer instanceof Response) return answer;
    request.signal.throwIfAborted();
    const warning = answer.sent && !isSafe(request) ? " The request may have taken effect: check before a retry." : "";
    throw new Unreachable(`No reply came from ${answer.reason}.${warning}`, request.url, answer.cause);
  };

  /** Send one attempt. */
  readonly fetchOnce = async (request: Request): Promise<Response> => {
    const { answer } = await this.#exchange(request, 0);
    if (answer instanceof Response) return answer;
    throw new Unreachable(`No reply came from ${answer.reason}.`, request.url, answer.cause);
  };

  /** Send a command, with the same key in every attempt; throws OutcomeUnknown if it may have been recorded. */
  readonly submit = async (request: Request): Promise<Response> => {
    const key = request.headers.get("idempotency-key") ?? "";
    const { answer, doubt } = await this.#exchange(request, RETRIES);
    if (answer instanceof NoReply) {
      if (doubt) throw new OutcomeUnknown(doubt, key, answer.cause);
      throw new Unreachable(
        `The command was not sent: no reply came from ${answer.reason}.`,
        request.url,
        answer.cause,
      );
    }
    if (!answer.ok && doubt) {
      const refusal = await errorOf(answer);
      if (!SETTLING_STATUSES.has(refusal.status) || refusal.code === "controls_refused") {
        throw new OutcomeUnknown(doubt, key, refusal);
      }
    }
    return answer;
  };

  /** Open a stream: one attempt, whose body is still being received. The signal ends it. */
  async open(request: Request, signal: AbortSignal): Promise<Response> {
    await this.#authenticate(request);
    return this.#fetch(request, { signal });
  }

  async #exchange(request: Request, retries: number): Promise<Ended> {
    await this.#authenticate(request);
    let doubt = "";
    for (let attempt = 0; ; attempt++) {
      const answer = await this.#attempt(request);
      doubt = (await doubtAfter(answer)) || doubt;
      const pause = attempt < retries ? await pauseBeforeRetry(answer, attempt) : undefined;
      if (pause === undefined || request.signal.aborted) return { answer, doubt };
      await sleep(pause, request.signal);
      if (request.signal.aborted) return { answer, doubt };
    }
  }

  async #attempt(request: Request): Promise<Response | NoReply> {
    const limit = new TimeLimit(request.signal);
    limit.restart(this.timeoutMillis);
    try {
      // Read to its end here: a reply that is cut in the middle is no reply.
      const response = await this.#fetch(request.clone(), { signal: limit.signal });
      const body = response.status === 204 ? null : await response.arrayBuffer();
      if (response.status < 200 || (response.status >= 300 && response.status < 400)) {
        throw new UnexpectedReply(`The server answered ${response.status} instead of the platform's reply.`);
      }
      const { status, statusText, headers } = response;
      return Object.defineProperty(new Response(body, { status, statusText, headers }), "url", { value: request.url });
    } catch (error) {
      if (error instanceof UnexpectedReply) throw error;
      const late = limit.expired ? `nothing for ${this.timeoutMillis} ms` : reasonOf(error);
      return new NoReply(`${new URL(request.url).origin} (${late})`, !NEVER_SENT.has(codeOf(error)), error);
    } finally {
      limit.end();
    }
  }

  async #authenticate(request: Request): Promise<void> {
    const { accessToken, apiKey, headers = {} } = this.#connection;
    for (const [name, value] of Object.entries(headers)) request.headers.set(name, value);
    if (accessToken !== undefined) {
      const token = typeof accessToken === "string" ? accessToken : await accessToken();
      request.headers.set("authorization", `Bearer ${token}`);
    } else if (apiKey !== undefined) {
      request.headers.set("x-api-key", apiKey);
    }
  }

  #fetch(request: Request, init: RequestInit): Promise<Response> {
    const { fetch = globalThis.fetch } = this.#connection;
    return fetch(request, init);
  }
}

/** A signal that aborts with the caller's, or when the time is up. Node 18 has no AbortSignal.any. */
export class TimeLimit {
  expired = false;
  readonly #controller = new AbortController();
  readonly #abort = () => this.#controller.abort(this.#outer?.reason);
  #timer: ReturnType<typeof setTimeout> | undefined;

  readonly #outer: AbortSignal | undefined;

  constructor(outer?: AbortSignal) {
    this.#outer = outer;
    if (outer?.aborted) this.#abort();
    else outer?.addEventListener("abort", this.#abort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Begin to count anew. */
  restart(millis: number): void {
    this.pause();
    this.#timer = setTimeout(() => {
      this.expired = true;
      this.#controller.abort();
    }, millis);
  }

  pause(): void {
    clearTimeout(this.#timer);
  }

  /** Forget the caller's signal. */
  end(): void {
    this.pause();
    this.#outer?.removeEventListener("abort", this.#abort);
  }

  /** Abort what still runs. */
  cut(): void {
    this.end();
    this.#controller.abort();
  }
}

/** The error in a reply that is not a success; the reply can still be read. */
export async function errorOf(response: Response): Promise<ApiError> {
  const text = await response.clone().text();
  try {
    return apiError(response, JSON.parse(text));
  } catch {
    return apiError(response, {});
  }
}

/** Why the request may have taken effect although this answer does not show it; empty if it cannot have. */
async function doubtAfter(answer: Response | NoReply): Promise<string> {
  if (answer instanceof NoReply) return answer.sent ? `no reply came from ${answer.reason}.` : "";
  if (answer.status < 500) return "";
  const error = await errorOf(answer);
  return error.code === NOT_RECORDED ? "" : error.detail;
}

/** Milliseconds to wait, or undefined if a retry cannot help or Retry-After is longer than LONGEST_PAUSE. */
async function pauseBeforeRetry(answer: Response | NoReply, attempt: number): Promise<number | undefined> {
  const pause = backoff(FIRST_PAUSE_MILLIS, attempt);
  if (answer instanceof NoReply) return pause;
  if (answer.ok) return undefined;
  const isRetried = RETRIED_STATUSES.has(answer.status) || RETRIED_CODES.has((await errorOf(answer)).code);
  if (!isRetried) return undefined;
  const after = answer.headers.get("retry-after") ?? "";
  if (!/^[0-9]+$/.test(after)) return pause;
  const asked = Number(after) * 1000;
  return asked <= LONGEST_PAUSE_MILLIS ? Math.max(pause, asked) : undefined;
}

/** Twice as long for each attempt, up to LONGEST_PAUSE, and up to a half of it taken off at random. */
export function backoff(first: number, attempt: number): number {
  return Math.min(LONGEST_PAUSE_MILLIS, first * 2 ** attempt) * (0.5 + Math.random() / 2);
}

/** Wait; an abort ends it early. */
export function sleep(millis: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, millis);
    if (signal?.aborted) end();
    else signal?.addEventListener("abort", end);
  });
}

/** A request bound to a version is sent once: if the first attempt had changed the version, the second would fail. */
function isSafe(request: Request): boolean {
  if (request.headers.has("idempotency-key")) return true;
  return request.method !== "POST" && !request.headers.has("if-match");
}

export function reasonOf(error: unknown): string {
  const { message, cause } = error as { message?: string; cause?: { message?: string; code?: string } };
  return cause?.message || cause?.code || message || String(error);
}

function codeOf(error: unknown): unknown {
  return (error as { cause?: { code?: unknown } }).cause?.code;
}
