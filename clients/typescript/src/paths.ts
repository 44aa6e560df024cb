/** The paths that the methods of the client use, and where each has the account. */
import type { paths } from "./schema.js";

export const PATHS = {
  me: "/v1/me",
  accounts: "/v1/accounts",
  intents: "/v1/accounts/{account_id}/intents",
  intent: "/v1/accounts/{account_id}/intents/{intent_id}",
  actions: "/v1/accounts/{account_id}/intents/{intent_id}/actions",
  deskCommands: "/v1/accounts/{account_id}/desk-commands",
  deskCommand: "/v1/accounts/{account_id}/desk-commands/{desk_command_id}",
  deskOrders: "/v1/accounts/{account_id}/desk-commands/{desk_command_id}/orders",
  orders: "/v1/orders",
  externalOrders: "/v1/accounts/{account_id}/external-orders",
  executions: "/v1/executions",
  positions: "/v1/accounts/{account_id}/positions",
  profit: "/v1/accounts/{account_id}/profit",
  balances: "/v1/accounts/{account_id}/balances",
  events: "/v1/events",
} as const satisfies Record<string, keyof paths>;

/** The parameters of a list of one account. */
export const listOf = <Query>(account_id: string, query: Query) => ({ path: { account_id }, query });

/** The parameters of one intent of an account. */
export const intentOf = (account_id: string, intent_id: string) => ({ path: { account_id, intent_id } });

/** The parameters of one desk command of an account. */
export const deskCommandOf = (account_id: string, desk_command_id: string) => ({
  path: { account_id, desk_command_id },
});
