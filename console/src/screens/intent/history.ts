/** An intent: read once, then changed by events. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api, client, type Schemas, take } from "../../api/api";
import { type Reading, useReading } from "../../api/reading";
import { idOf } from "../../live/rows";
import { listen } from "../../live/live";
import { EVENTS_MAX, type Intent, withEvent } from "./merge";

// Outcomes of a command come in bursts; the parts that events do not have are read once for each burst.
const BURST_MILLIS = 300;

async function all<Item>(items: AsyncIterable<Item>, most: number): Promise<Item[]> {
  const found: Item[] = [];
  for await (const item of items) {
    if (found.push(item) === most) break;
  }
  return found;
}

async function readEvents(account_id: string, intent_id: string, signal: AbortSignal) {
  const params = { query: { account_id, intent_id, limit: 100 } };
  const page = (await take(api.GET("/v1/events", { params, signal }))) as Schemas["EventPage"];
  return page.data;
}

async function readIntent(account_id: string, intent_id: string, signal: AbortSignal): Promise<Intent> {
  const path = { account_id };
  const receipts = { params: { path, query: { intent_id, limit: 100 } }, signal };
  const [latest, actions, page, executions, events] = await Promise.all([
    client.intent(account_id, intent_id, { signal }),
    all(client.actions(account_id, intent_id, { signal }), 100),
    take(api.GET("/v1/accounts/{account_id}/receipts", receipts)),
    all(client.executions({ account_id, intent_id, signal }), EVENTS_MAX),
    readEvents(account_id, intent_id, signal),
  ]);
  const execution = latest.execution;
  if (!execution) throw new Error("the intent has no execution");
  return { latest, execution, actions, receipts: page.data, executions, events };
}

/** Read the intent, and follow it while the page is open. */
export function useIntent(account: string, id: string): Reading<Intent> {
  const reading = useReading(`${account}/${id}`, (signal) => readIntent(account, id, signal));
  const shown = useSignal<Intent | undefined>(undefined);
  const read = useRef<Intent | undefined>(undefined);
  if (reading.data !== read.current) {
    read.current = reading.data;
    shown.value = reading.data;
  }
  const again = useRef(reading.again);
  again.current = reading.again;
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const readSoon = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        again.current();
      }, BURST_MILLIS);
    };
    const end = listen({
      events: (events) => {
        for (const event of events) {
          if (idOf(event) !== id && event.broker_trade?.intent_id !== id) continue;
          const before = shown.peek();
          if (before) shown.value = withEvent(before, event);
          if (event.intent_action || event.broker_order?.certainty === "UNKNOWN" || !before) readSoon();
        }
      },
      begun: () => {
        if (shown.peek()) readSoon();
      },
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [account, id]);
  return { ...reading, data: shown.value };
}
