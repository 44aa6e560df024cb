/** TypeScript client for Openbell. */
export * from "./client.js";
export {
  ApiError,
  Conflict,
  EventMissed,
  type FieldProblem,
  Invalid,
  NotAuthenticated,
  NotConfigured,
  NotFinal,
  NotFound,
  OpenbellError,
  OutcomeUnknown,
  PermissionDenied,
  RateLimited,
  Unavailable,
  UnexpectedReply,
  Unreachable,
} from "./errors.js";
export type { ConnectionReport, EventOptions, EventType, StreamEvent } from "./events.js";
export type { Connection } from "./exchange.js";
export {
  limit,
  market,
  type OrderOptions,
  type Quantity,
  type Spec,
  stop,
  stopLimit,
  type TimeInForce,
} from "./orders.js";
export type { components, operations, paths } from "./schema.js";
