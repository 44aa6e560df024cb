import { OpenbellError } from "@openbell/client";
import { api, client, type Schemas, take } from "../../api/api";

export type Webhook = Schemas["Webhook"];
export type Lane = Schemas["Lane"];

const LANES_MAX = 1000;
const of = (webhook_id: string) => ({ path: { webhook_id } });

/** Refused with 412 if the webhook has changed since this version. */
const at = ({ id, version }: Webhook) => ({ ...of(id), header: { "If-Match": `"${version}"` } });

export async function readWebhooks(signal: AbortSignal): Promise<Webhook[]> {
  const { data } = await take(api.GET("/v1/webhooks", { signal }));
  // The list is without the counts of the lanes; an organization has few webhooks.
  return Promise.all(
    data.map((each) => (each.lanes ? each : take(api.GET("/v1/webhooks/{webhook_id}", { params: of(each.id), signal })))),
  );
}

export async function readDetail(webhook_id: string, signal: AbortSignal) {
  const readLanes = async () => {
    const found: Lane[] = [];
    const read = (next_cursor: string | undefined) =>
      api.GET("/v1/webhooks/{webhook_id}/lanes", {
        params: { ...of(webhook_id), query: { limit: 100, ...(next_cursor && { next_cursor }) } },
        signal,
      });
    for await (const lane of client.items(read)) if (found.push(lane) === LANES_MAX) break;
    return found;
  };
  const attempts = take(api.GET("/v1/webhooks/{webhook_id}/attempts", { params: { ...of(webhook_id), query: { limit: 30 } }, signal }));
  const [lanes, { data }] = await Promise.all([readLanes(), attempts]);
  return { lanes, attempts: data };
}

export const createWebhook = (body: Schemas["NewWebhook"]): Promise<Webhook> => take(api.POST("/v1/webhooks", { body }));

export async function setStatus(webhook: Webhook, status: "ACTIVE" | "PAUSED"): Promise<string> {
  await take(api.PATCH("/v1/webhooks/{webhook_id}", { params: at(webhook), body: { status } }));
  return status === "ACTIVE" ? "It sends, and failing and parked lanes are tried again now." : "Paused: it continues at the same event when you resume it.";
}

export async function test(id: string): Promise<string> {
  const { delivered, status, duration_millis, error, message } = await take(api.POST("/v1/webhooks/{webhook_id}/test", { params: of(id) }));
  const answer = status === undefined ? (message ?? error ?? "no answer") : `the target answered ${status}`;
  if (delivered) return `Delivered: ${answer} after ${duration_millis} ms.`;
  throw new OpenbellError(`Not delivered: ${answer}, after ${duration_millis} ms.`, "Check that the target runs and answers within eight seconds.");
}

export async function replay(id: string, after_seq: number, account_id: string | undefined): Promise<string> {
  const body = { after_seq, ...(account_id && { account_id }) };
  const { lanes } = await take(api.POST("/v1/webhooks/{webhook_id}/replay", { params: of(id), body }));
  return `${lanes} ${lanes === 1 ? "lane continues" : "lanes continue"} after event ${after_seq.toLocaleString("en-US")}.`;
}

export async function rotate(webhook: Webhook): Promise<Webhook> {
  return take(api.POST("/v1/webhooks/{webhook_id}/rotate-secret", { params: at(webhook) }));
}

export async function remove(webhook: Webhook): Promise<string> {
  await take(api.DELETE("/v1/webhooks/{webhook_id}", { params: at(webhook) }));
  return "Deleted. No more events are sent, except for a delivery in progress.";
}
