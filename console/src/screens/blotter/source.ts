/** Where the rows of the blotter come from. */
import type { OrderFilters } from "@openbell/client";
import { api, client, type Schemas, take } from "../../api/api";
import type { BookPage, Source } from "../../live/book";
import { afterEvent, type Row, rowOfOrder } from "../../live/rows";
import { openAccounts, whoIsRead } from "../../shell/session";
import { type Filters, isInScope, scopeQuery } from "./filters";

const PAGE = 100;
/** Refusals are looked up among so many of the newest events of an account, and in so many accounts. */
const EVENTS_LOOKED_AT = 5_000;
const PAGES_MAX = 8;
export const REFUSAL_ACCOUNTS_MAX = 10;
const NO_EVENT_IS_AFTER = 999_999_999_999_999;

async function ordersPage(query: OrderFilters, cursor: string | undefined): Promise<BookPage> {
  const params = { query: { ...query, limit: PAGE, ...(cursor && { next_cursor: cursor }) } };
  const page = await take(api.GET("/v1/orders", { params }));
  return { rows: page.data.map(rowOfOrder), next: page.next_cursor ?? undefined };
}

/** Commands that a control of the account refused: the log has them, receipts are listed oldest first only. */
async function refusalsOf(account_id: string): Promise<Row[]> {
  const read = async (from: { after_seq: number } | { next_cursor: string }) => {
    const params = { query: { account_id, ...from, types: "INTENT_REFUSED", limit: PAGE } };
    return (await take(api.GET("/v1/events", { params }))) as Schemas["EventPage"];
  };
  const { newest_seq } = await read({ after_seq: NO_EVENT_IS_AFTER });
  const found: Row[] = [];
  let from: Parameters<typeof read>[0] = { after_seq: Math.max(0, newest_seq - EVENTS_LOOKED_AT) };
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const page = await read(from);
    for (const event of page.data) {
      const row = afterEvent(undefined, { ...event, is_snapshot: false }, 0);
      if (row) found.push({ ...row, changes: 0 });
    }
    // A page without an event can be followed by others: the server looks at a limited number for each.
    if (!page.next_cursor) break;
    from = { next_cursor: page.next_cursor };
  }
  return found;
}

/** Orders of the scope and of one more question; with `refusals` also the commands that a control refused. */
export function sourceOf(filters: Filters, more: OrderFilters, withRefusals: boolean): Source {
  const query = { ...scopeQuery(filters), ...more };
  const refusals = async (): Promise<Row[]> => {
    await whoIsRead;
    const asked = filters.account ? [filters.account] : openAccounts.value.map(({ id }) => id);
    const found = await Promise.all(asked.slice(0, REFUSAL_ACCOUNTS_MAX).map(refusalsOf));
    return found.flat().filter((row) => isInScope(row, filters));
  };
  return {
    page: (cursor) => ordersPage(query, cursor),
    ...(withRefusals && { refusals }),
    accepts: (row) => isInScope(row, filters) && (withRefusals || !row.isRefusal),
  };
}

/** Cancel orders of one account; the outcome of each, in any order. */
export async function cancelOrders(account_id: string, intent_ids: string[]) {
  const params = { path: { account_id } };
  const answer = await client.take(
    client.api.POST("/v1/accounts/{account_id}/orders/cancel", { params, body: { intent_ids } }),
  );
  return answer.data;
}
