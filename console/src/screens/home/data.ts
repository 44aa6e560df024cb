/** What the first page reads once, and how events keep it current. */
import { signal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { api, type Failure, failureOf, type Schemas, take } from "../../api/api";
import type { StreamEvent } from "../../live/live";
import { useAfterEvents, useLive } from "../../live/use";
import { readAccount } from "../../shell/session";
import { Books } from "../blotter/books";
import { FillTimes, OpenOrders } from "./counts";

const PAGE = 100;
const OVERVIEW_PAGES_MAX = 10;
const UNKNOWN_MAX = 1000;

async function readOverviews(): Promise<Schemas["AccountOverview"][]> {
  const found: Schemas["AccountOverview"][] = [];
  let next_cursor: string | undefined;
  for (let pages = 0; pages < OVERVIEW_PAGES_MAX; pages++) {
    const query = { limit: PAGE, ...(next_cursor && { next_cursor }) };
    const page = await take(api.GET("/v1/overview", { params: { query } }));
    found.push(...page.data);
    if (!page.next_cursor) break;
    next_cursor = page.next_cursor;
  }
  return found;
}

const readSwitches = async () => (await take(api.GET("/v1/controls/switches", { params: { query: { limit: PAGE } } }))).data;

async function readWebhooks(): Promise<Schemas["Webhook"][]> {
  const { data } = await take(api.GET("/v1/webhooks"));
  const show = (webhook_id: string) => take(api.GET("/v1/webhooks/{webhook_id}", { params: { path: { webhook_id } } }));
  return Promise.all(data.map((each) => (each.lanes ? each : show(each.id))));
}

export class Home {
  readonly version = signal(0);
  readonly failure = signal<Failure | undefined>(undefined);
  /** What could not be read, and why; the rest is shown. */
  readonly missing = signal<readonly string[]>([]);
  readonly hasLoaded = signal(false);
  readonly open = new OpenOrders();
  readonly fills = new FillTimes();
  overviews: Schemas["AccountOverview"][] = [];
  switches: Schemas["Switch"][] = [];
  webhooks: Schemas["Webhook"][] = [];

  async load(): Promise<void> {
    const missing: string[] = [];
    const orEmpty = <Row,>(what: string, reading: Promise<Row[]>): Promise<Row[]> =>
      reading.catch((error: unknown) => {
        missing.push(`${what}: ${failureOf(error).detail}`);
        return [];
      });
    try {
      const fills = take(api.GET("/v1/executions", { params: { query: { order: "desc", limit: PAGE } } }));
      const switches = orEmpty("Halts are not shown", readSwitches());
      const webhooks = orEmpty("Webhooks are not shown", readWebhooks());
      this.overviews = await readOverviews();
      this.open.reset(this.overviews);
      const page = await fills;
      this.fills.reset(page.data, !page.next_cursor);
      [this.switches, this.webhooks] = await Promise.all([switches, webhooks]);
      this.missing.value = missing;
      this.failure.value = undefined;
      this.hasLoaded.value = true;
    } catch (error) {
      this.failure.value = failureOf(error);
    }
    this.version.value++;
  }

  async readSwitches(): Promise<void> {
    this.switches = await readSwitches().catch(() => this.switches);
    this.version.value++;
  }

  apply(events: readonly StreamEvent[]): void {
    for (const event of events) {
      this.open.apply(event);
      if (event.broker_trade?.kind === "NORMAL") this.fills.add(event.account_id, event.occurred_at ?? new Date().toISOString());
    }
    this.version.value++;
  }
}

/** The state of the page while it is open. */
export function useHome(): { home: Home; books: Books } {
  const books = useMemo(() => new Books({ states: new Set(), symbol: "", side: "", account: "" }), []);
  const home = useMemo(() => new Home(), []);
  const isReadingOlder = useRef(false);
  const switchesChanged = useAfterEvents(() => void home.readSwitches());
  useEffect(() => {
    books.start();
    void home.load();
    return () => books.stop();
  }, []);
  useLive({
    events: (events) => {
      home.apply(events);
      if (events.some(({ control_changed }) => control_changed?.status)) switchesChanged();
      const halted = events.filter(({ account_changed }) => account_changed).map(({ account_id }) => account_id);
      for (const id of new Set(halted)) void readAccount(id).catch(() => undefined);
    },
    begun: () => void home.load(),
  });
  // Every order in doubt is counted, not only those of the newest page.
  const { unknown } = books;
  useEffect(() => {
    if (isReadingOlder.current || !unknown.hasLoaded.value || unknown.isComplete) return;
    if (unknown.rows.length >= UNKNOWN_MAX || unknown.failure.value) return;
    isReadingOlder.current = true;
    void unknown.older().finally(() => {
      isReadingOlder.current = false;
    });
  }, [unknown.version.value, unknown.hasLoaded.value]);
  return { home, books };
}
