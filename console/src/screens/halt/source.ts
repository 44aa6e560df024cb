/** Switches and halt reports, as the API has them. */
import { api, client, type Schemas, take } from "../../api/api";
import { type Place, placeKey, type Placed } from "../../ui/places";
import type { HaltReport } from "./checks";
import type { SwitchChange } from "./commands";

export type Switch = Schemas["Switch"];

export interface HaltInForce extends Placed {
  readonly status: Schemas["SwitchState"];
  readonly cancel_working: boolean;
  readonly version?: number;
  readonly reason?: string;
  readonly updated_at?: string;
  readonly principal_type?: string;
  readonly principal_id?: string;
}

const SWITCHES_MAX = 2000;

/** Halts of every scope of the organization. */
async function ownSwitches(signal: AbortSignal): Promise<Switch[]> {
  const found: Switch[] = [];
  const read = (next_cursor: string | undefined) =>
    api.GET("/v1/controls/switches", { params: { query: { limit: 100, ...(next_cursor && { next_cursor }) } }, signal });
  for await (const each of client.items(read)) {
    if (found.push(each) === SWITCHES_MAX) break;
  }
  return found;
}

/** A halt of the platform: its operator set it, so it is not among the organization's switches. */
async function platformHalts(signal: AbortSignal): Promise<HaltInForce[]> {
  const found: HaltInForce[] = [];
  const read = (next_cursor: string | undefined) =>
    api.GET("/v1/controls/effective", { params: { query: { limit: 100, ...(next_cursor && { next_cursor }) } }, signal });
  for await (const rule of client.items(read)) {
    const status = rule.parameters?.status as Schemas["SwitchState"] | undefined;
    if (rule.scope !== "PLATFORM" || !status || status === "ACTIVE") continue;
    found.push({ ...rule, status, cancel_working: rule.parameters?.cancel_working === true });
  }
  return found;
}

export interface Switches {
  /** Each that was ever set, by its place. */
  own: ReadonlyMap<string, Switch>;
  /** What stops something now, the widest first, then the newest. */
  inForce: HaltInForce[];
}

const WIDTH = ["PLATFORM", "ORGANIZATION", "ACCOUNT", "KEY", "SYMBOL"];

export async function readSwitches(signal: AbortSignal): Promise<Switches> {
  const [own, platform] = await Promise.all([ownSwitches(signal), platformHalts(signal)]);
  const inForce: HaltInForce[] = [...platform, ...own.filter(({ status }) => status !== "ACTIVE")];
  inForce.sort(
    (a, b) =>
      WIDTH.indexOf(a.scope) - WIDTH.indexOf(b.scope) || (b.updated_at ?? "").localeCompare(a.updated_at ?? ""),
  );
  return { own: new Map(own.map((each) => [placeKey(each), each])), inForce };
}

/** Sets the switch; with `version` only if it still has that version. */
export function setSwitch(place: Place, change: SwitchChange, version: number | undefined): Promise<Switch> {
  const header = version === undefined ? {} : { "If-Match": `"${version}"` };
  const body = { status: change.status, reason: change.reason, cancel_working: change.cancel_working };
  return take(api.PUT("/v1/controls/switches", { params: { query: { ...place }, header }, body }));
}

const PAGE = 20;

export async function reportPage(account_id: string, next_cursor?: string, signal?: AbortSignal) {
  const params = { query: { account_id, limit: PAGE, ...(next_cursor && { next_cursor }) } };
  return take(api.GET("/v1/halt-reports", { params, signal }));
}

const PAGES_MAX = 50;

/** The first report that fits, the newest first; undefined if there is none. */
async function find(
  account: string,
  fits: (report: HaltReport) => boolean,
  isPast: (report: HaltReport) => boolean,
  signal: AbortSignal,
): Promise<HaltReport | undefined> {
  let cursor: string | undefined;
  for (let pages = 0; pages < PAGES_MAX; pages++) {
    const page = await reportPage(account, cursor, signal);
    const found = page.data.find(fits);
    const last = page.data.at(-1);
    if (found || !page.next_cursor || (last && isPast(last))) return found;
    cursor = page.next_cursor;
  }
  return undefined;
}

/** What the halt that is in force does to one account. */
export const reportOf = (account: string, halt: HaltInForce, signal: AbortSignal) =>
  find(
    account,
    (report) => report.until === null && placeKey(report) === placeKey({ account_id: account, ...halt }),
    // Reports are ordered by their time: those before the halt are not looked at.
    ({ since }) => since < (halt.updated_at ?? ""),
    signal,
  );

export const reportById = (account: string, id: string, signal: AbortSignal) =>
  find(
    account,
    (report) => report.id === id,
    () => false,
    signal,
  );

const COUNTED_MAX = 100;

/** How many orders the place has that may still fill, such as "12" or "100 or more"; undefined if it is not known. */
export async function countWorking(place: Place, signal: AbortSignal): Promise<string | undefined> {
  if (place.scope === "KEY") return undefined;
  if (place.scope === "SYMBOL") {
    const { account_id, symbol } = place;
    const params = { query: { account_id, symbol, status: "WORKING" as const, limit: COUNTED_MAX } };
    const page = await take(api.GET("/v1/orders", { params, signal }));
    return page.next_cursor ? `${COUNTED_MAX} or more` : String(page.data.length);
  }
  let total = 0;
  const read = (next_cursor: string | undefined) =>
    api.GET("/v1/overview", { params: { query: { limit: 100, ...(next_cursor && { next_cursor }) } }, signal });
  for await (const each of client.items(read)) {
    if (place.scope === "ORGANIZATION" || each.account_id === place.account_id) total += each.open_orders;
  }
  return String(total);
}
