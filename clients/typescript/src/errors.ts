/**
 * The errors of the client. Each states what happened and, in `remedy`, what to do.
 *
 *     OpenbellError
 *     ├── NotConfigured       an option or an argument is missing or malformed; nothing was sent
 *     ├── ApiError            the platform refused the request
 *     │   ├── Invalid             400, 413, 415, 422
 *     │   ├── NotAuthenticated    401
 *     │   ├── PermissionDenied    403
 *     │   ├── NotFound            404
 *     │   ├── Conflict            409, 412
 *     │   ├── RateLimited         429
 *     │   └── Unavailable         5xx
 *     ├── Unreachable         no reply; a command that throws it was never sent
 *     ├── OutcomeUnknown      the reply to a command was lost; it may be recorded
 *     ├── UnexpectedReply     the reply is not from the platform, or not complete
 *     ├── NotFinal            the order was still open when wait() timed out
 *     └── EventMissed         the event stream skipped an event
 */
import type { components } from "./schema.js";

type Schemas = components["schemas"];
export type FieldProblem = Schemas["FieldProblem"];

export class OpenbellError extends Error {
  constructor(
    detail: string,
    readonly remedy: string,
    cause?: unknown,
  ) {
    super(`${detail} ${remedy}`.trim(), cause === undefined ? undefined : { cause });
    this.detail = detail;
    this.name = new.target.name;
  }

  /** What happened, without the remedy. */
  readonly detail: string;
}

export class NotConfigured extends OpenbellError {}

export class ApiError extends OpenbellError {
  /** For programs; its meaning never changes. docs/errors.md lists the codes. */
  readonly code: string;
  readonly title: string;
  readonly status: number;
  /** Each wrong field by its JSON pointer. */
  readonly errors: readonly FieldProblem[];
  readonly requestId: string | undefined;
  /** The address that was called. */
  readonly url: string;
  /** The result of each rule, if a control refused the command. */
  readonly receipt: Schemas["Receipt"] | undefined;

  constructor(response: Response, problem: Partial<Schemas["Problem"]>) {
    super(
      problem.detail || problem.title || `The server answered ${response.status} without a reason.`,
      problem.remedy || "If it happens again, send the request id to the operator.",
    );
    this.code = problem.code || `http_${response.status}`;
    this.title = problem.title || this.detail;
    this.status = response.status;
    this.errors = problem.errors ?? [];
    this.requestId = problem.request_id || response.headers.get("x-request-id") || undefined;
    this.url = response.url;
    this.receipt = problem.receipt;
  }
}

export class Invalid extends ApiError {}
export class NotAuthenticated extends ApiError {}
export class PermissionDenied extends ApiError {}
export class NotFound extends ApiError {}
export class Conflict extends ApiError {}
export class RateLimited extends ApiError {}
export class Unavailable extends ApiError {}

export class Unreachable extends OpenbellError {
  constructor(
    detail: string,
    /** The address that was called. */
    readonly url: string,
    cause?: unknown,
    /** Of an event stream: where to continue. */
    readonly resumeToken?: string,
  ) {
    super(detail, `Check that the platform runs at ${new URL(url).origin} and that baseUrl is right.`, cause);
  }
}

export class OutcomeUnknown extends OpenbellError {
  constructor(
    reason: string,
    readonly idempotencyKey: string,
    cause?: unknown,
  ) {
    super(
      `It is not known whether the command was recorded: ${reason}`,
      `Send the same command again with idempotencyKey "${idempotencyKey}": ` +
        "it is recorded at most once, and the reply shows the recorded action.",
      cause,
    );
  }
}

export class UnexpectedReply extends OpenbellError {
  constructor(detail: string, cause?: unknown) {
    super(detail, "Check that baseUrl is the platform's address and not that of a proxy or another service.", cause);
  }
}

export class NotFinal extends OpenbellError {
  constructor(
    detail: string,
    readonly action: Schemas["Action"],
  ) {
    super(detail, "Wait again, follow the events, or cancel the intent.");
  }
}

export class EventMissed extends OpenbellError {
  constructor(
    /** The last event before the missing ones, and the last missing one. */
    readonly position: number,
    readonly prevSeq: number,
    readonly resumeToken: string | undefined,
    readonly reason = "",
  ) {
    const why = reason ? "are no longer in the log" : "did not arrive";
    super(
      `Events ${position + 1} to ${prevSeq} of the account ${why}.`,
      "Read the intents to see their state, then subscribe again from resumeToken.",
    );
  }
}

const CLASSES: Record<number, typeof ApiError> = {
  400: Invalid,
  401: NotAuthenticated,
  403: PermissionDenied,
  404: NotFound,
  409: Conflict,
  412: Conflict,
  413: Invalid,
  415: Invalid,
  422: Invalid,
  429: RateLimited,
};

/** The error of a reply that is not a success, also if a proxy sent it. */
export function apiError(response: Response, body: unknown): ApiError {
  const kind = CLASSES[response.status] ?? (response.status >= 500 ? Unavailable : ApiError);
  return new kind(response, typeof body === "object" && body !== null ? body : {});
}
