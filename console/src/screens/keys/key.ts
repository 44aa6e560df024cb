import type { Schemas } from "@openbell/client";

export type Key = Schemas["ApiKey"];
export type NewKey = Schemas["NewApiKey"];
type Permission = NonNullable<NewKey["permissions"]>[number];

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

export type KeyState = "in use" | "disabled" | "expired" | "revoked";

export function stateOf({ revoked_at, disabled, expires_at }: Key, now: number): KeyState {
  if (revoked_at) return "revoked";
  if (disabled) return "disabled";
  return expires_at && Date.parse(expires_at) <= now ? "expired" : "in use";
}

/** A key of an agent has a fixed set of permissions, an end, and only its own orders. */
export const isAgent = ({ own_orders_only, account_ids, expires_at, permissions }: Key): boolean =>
  own_orders_only && !!account_ids && !!expires_at && permissions.includes("intent:edit");
