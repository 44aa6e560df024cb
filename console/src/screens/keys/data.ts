import { api, client, take } from "../../api/api";
import type { Key, NewKey } from "./key";

const KEYS_MAX = 1000;

export async function readKeys(signal: AbortSignal): Promise<Key[]> {
  const found: Key[] = [];
  const read = (next_cursor: string | undefined) =>
    api.GET("/v1/api-keys", { params: { query: { limit: 100, ...(next_cursor && { next_cursor }) } }, signal });
  for await (const key of client.items(read)) if (found.push(key) === KEYS_MAX) break;
  return found.reverse();
}

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
