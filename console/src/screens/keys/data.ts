import { api, client, type Schemas, take } from "../../api/api";

export type Key = Schemas["ApiKey"];
export type NewKey = Schemas["NewApiKey"];
type Permission = NonNullable<NewKey["permissions"]>[number];

const KEYS_MAX = 1000;

/** What each permission lets a key do, in the order of the columns. */
export const PERMISSIONS: readonly (readonly [Permission, string])[] = [
  ["intent:read", "read orders"],
  ["intent:edit", "submit, replace, cancel"],
  ["event:read", "follow events"],
  ["account:read", "read accounts"],
  ["account:edit", "change accounts"],
  ["credential:edit", "change credentials"],
  ["control:read", "read limits"],
  ["control:edit:paper", "tighten limits of paper accounts"],
  ["control:edit:live", "tighten limits of live accounts"],
  ["control:loosen", "loosen limits"],
  ["webhook:read", "read webhooks"],
  ["webhook:edit", "change webhooks"],
];

export async function readKeys(signal: AbortSignal): Promise<Key[]> {
  const found: Key[] = [];
  const read = (next_cursor: string | undefined) =>
    api.GET("/v1/api-keys", { params: { query: { limit: 100, ...(next_cursor && { next_cursor }) } }, signal });
  for await (const key of client.items(read)) if (found.push(key) === KEYS_MAX) break;
  return found.reverse();
}

export type KeyState = "in use" | "disabled" | "expired" | "revoked";

export function stateOf({ revoked_at, disabled, expires_at }: Key, now: number): KeyState {
  if (revoked_at) return "revoked";
  if (disabled) return "disabled";
  return expires_at && Date.parse(expires_at) <= now ? "expired" : "in use";
}

/** A key of an agent has a fixed set of permissions, an end, and only its own orders. */
export const isAgent = ({ own_orders_only, account_ids, expires_at, permissions }: Key): boolean =>
  own_orders_only && !!account_ids && !!expires_at && permissions.includes("intent:edit");

export const readWorstCase = (api_key_id: string, signal: AbortSignal) =>
  take(api.GET("/v1/api-keys/{api_key_id}/worst-case", { params: { path: { api_key_id } }, signal }));

export const createKey = (body: NewKey): Promise<Key> => take(api.POST("/v1/api-keys", { body }));

export async function setDisabled(api_key_id: string, disabled: boolean): Promise<string> {
  await take(api.PATCH("/v1/api-keys/{api_key_id}", { params: { path: { api_key_id } }, body: { disabled } }));
  return disabled ? "Disabled everywhere within a second." : "Enabled everywhere within a second.";
}

export async function revoke(api_key_id: string): Promise<string> {
  await take(api.DELETE("/v1/api-keys/{api_key_id}", { params: { path: { api_key_id } } }));
  return "Revoked everywhere within a second. Its queued commands that were not sent are skipped.";
}
