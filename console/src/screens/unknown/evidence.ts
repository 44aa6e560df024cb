/** What is known of an order in doubt, and the commands that settle it. */
import type { Schemas } from "@openbell/client";
import { api, take } from "../../api/api";
import { clock } from "../../text/time";
import { count } from "../../text/words";

export type Unknown = Schemas["Unknown"];
export interface Evidence {
  unknown: Unknown | undefined;
  /** The command whose outcome is unknown. */
  action: Schemas["Action"] | undefined;
}

export async function readEvidence(account_id: string, intent_id: string, signal: AbortSignal): Promise<Evidence> {
  const params = { path: { account_id, intent_id } };
  const latest = await take(api.GET("/v1/accounts/{account_id}/intents/{intent_id}", { params, signal }));
  const unknown = latest.execution?.unknown;
  if (latest.status === "UNKNOWN" || !unknown) return { unknown, action: latest };
  // A command was recorded after the one in doubt.
  const actions = await take(api.GET("/v1/accounts/{account_id}/intents/{intent_id}/actions", { params, signal }));
  return { unknown, action: actions.data.findLast(({ status }) => status === "UNKNOWN") };
}

/** "Written once. Asked 6 times, never shown; last at 09:05:57.120." */
export function asked({ writes, probes }: Pick<Unknown, "writes" | "probes">): string {
  const written = `May have been sent ${count(writes, "time")}`;
  const last = probes.at(-1);
  if (!last) return `${written}. No look-up at the broker was made.`;
  const found = probes.filter((each) => each.found).length;
  const shown = found ? `shown ${count(found, "time")}` : "never shown";
  const many = probes.length >= 50 ? "at least 50 times" : count(probes.length, "time");
  return `${written}. The broker was asked ${many}, ${shown}; last at ${clock(last.at)}.`;
}

/** The operator's command, as docs/unknown.md has it. */
export function settleCommand(action: string, candidate: string | undefined): string {
  const outcome = candidate ? `--as acked --broker-order-id ${candidate}` : "--as failed";
  const because = candidate ? "the broker's list has it, desk phoned" : "not in the broker's order list, desk phoned";
  return `openbell-server actions list --unknown\nopenbell-server actions settle ${action} ${outcome} --because "${because}"`;
}
