/** What an intent consists of: read once, then changed by events. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api, client, type Schemas, take } from "../../api/api";
import { type Reading, useReading } from "../../api/reading";
import { idOf } from "../../live/rows";
import { listen, type StreamEvent } from "../../live/live";

export interface Intent {
  /** The latest action, with the execution. */
  latest: Schemas["Action"];
  execution: Schemas["Execution"];
  actions: Schemas["Action"][];
  receipts: Schemas["StoredReceipt"][];
  executions: Schemas["ExecutionRow"][];
  events: Schemas["Event"][];
}

// Outcomes of a command come in bursts; the parts that events do not have are read once for each burst.
const BURST_MILLIS = 300;
const EVENTS_MAX = 500;

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

/** The intent after an event; what only a reading has stays as it was. */
export function withEvent(intent: Intent, event: StreamEvent): Intent {
  if (intent.events.some((each) => each.event_id === event.event_id)) return intent;
  const events = [...intent.events, event as Schemas["Event"]].slice(-EVENTS_MAX);
  if (event.broker_trade) return { ...intent, events, executions: withTrade(intent.executions, event) };
  if (!event.broker_order) return { ...intent, events };
  const { status, certainty, filled_quantity, leaves_quantity, average_price, broker_order_ids } = event.broker_order;
  const isSettled = certainty !== "UNKNOWN";
  const execution = {
    status,
    certainty,
    filled_quantity,
    leaves_quantity,
    average_price,
    broker_order_ids: broker_order_ids ?? intent.execution.broker_order_ids,
    updated_at: event.occurred_at ?? intent.execution.updated_at,
    ...(!isSettled && { unknown: intent.execution.unknown }),
  };
  return { ...intent, events, execution };
}

function withTrade(executions: Schemas["ExecutionRow"][], event: StreamEvent): Schemas["ExecutionRow"][] {
  const trade = event.broker_trade;
  if (!trade) return executions;
  const known = executions.find((each) => each.execution_id === trade.execution_id);
  const row: Schemas["ExecutionRow"] = {
    account_id: event.account_id,
    execution_id: trade.execution_id,
    intent_id: trade.intent_id,
    symbol: trade.symbol,
    order_side: trade.order_side,
    kind: trade.kind,
    // A bust has the quantity that it took back; the list shows it as zero.
    quantity: trade.kind === "BUST" ? "0" : trade.quantity,
    price: trade.price,
    executed_at: trade.executed_at,
    recorded_at: known?.recorded_at ?? event.occurred_at ?? trade.executed_at,
    ...(trade.fee !== undefined && { fee: trade.fee }),
  };
  return known ? executions.map((each) => (each === known ? row : each)) : [...executions, row];
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
