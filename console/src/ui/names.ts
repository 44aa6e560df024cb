/** Names of places; those of API keys are read once, by users who may list them. */
import { effect, signal } from "@preact/signals";
import { client, type Schemas } from "../api/api";
import { accountName, can, me } from "../shell/session";
import type { Placed } from "./places";

export type ApiKey = Schemas["ApiKey"];

export const keys = signal<readonly ApiKey[]>([]);
const KEYS_MAX = 1000;
let hasAsked = false;

async function readKeys(): Promise<void> {
  const found: ApiKey[] = [];
  const read = (next_cursor: string | undefined) =>
    client.api.GET("/v1/api-keys", { params: { query: { limit: 100, ...(next_cursor && { next_cursor }) } } });
  for await (const key of client.items(read)) {
    if (found.push(key) === KEYS_MAX) break;
  }
  keys.value = found.filter((each) => !each.revoked_at);
}

effect(() => {
  if (hasAsked || !me.value || !can("MANAGE_KEYS")) return;
  hasAsked = true;
  // Without names the ids are shown.
  void readKeys().catch(() => {
    hasAsked = false;
  });
});

export const keyName = (id: string): string => keys.value.find((each) => each.id === id)?.name ?? `${id.slice(0, 13)}…`;

/** What a person calls the place, and types to confirm. */
export function placeName({ scope, account_id = "", symbol = "", api_key_id = "" }: Placed): string {
  if (scope === "KEY") return keyName(api_key_id);
  if (scope === "SYMBOL") return symbol;
  if (scope === "ACCOUNT") return accountName(account_id);
  if (scope === "PLATFORM") return "Platform";
  return me.value?.organization?.name ?? "the organization";
}

/** The same with what it belongs to: "AAPL on Paper 1". */
export function placeTitle(of: Placed): string {
  const name = placeName(of);
  if (of.scope === "SYMBOL") return `${name} on ${accountName(of.account_id ?? "")}`;
  return of.scope === "KEY" ? `API key ${name}` : name;
}

/** "user maya", "API key bot", "the operator". */
export function who(principal_type: string | undefined, principal_id: string | undefined): string {
  if (principal_type === "API_KEY") return `API key ${principal_id ? keyName(principal_id) : ""}`;
  if (principal_type === "USER") return principal_id ?? "a user";
  if (principal_type === "SYSTEM") return `Openbell${principal_id ? ` (${principal_id.replaceAll("_", " ")})` : ""}`;
  if (principal_type === "SERVICE") return `service ${principal_id ?? ""}`;
  return principal_type ? "the operator" : "–";
}

/** The operation of GET /v1/me that a change at this scope needs. */
export const editOperation = (scope: string): string =>
  scope === "ACCOUNT" || scope === "SYMBOL" ? "EDIT_CONTROLS" : "EDIT_ORGANIZATION_CONTROLS";
