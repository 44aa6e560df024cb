/** Rules, their history, back-tests and dry runs, as the API has them. */
import { api, client, type Schemas, take } from "../../api/api";
import { type Place, placeKey } from "../../ui/places";
import type { Terms } from "./terms";

export type Rule = Schemas["Rule"];
export type RuleChange = Schemas["RuleChange"];
export type EffectiveRule = Schemas["EffectiveRule"];
export type ControlKind = Schemas["ControlKind"];
export type Backtest = Schemas["Backtest"];
type Code = Schemas["ProposedRule"]["code"];

const ROWS_MAX = 2000;

export interface Effective {
  rules: EffectiveRule[];
  isWatchedOnly: boolean;
}

/** What applies at the place; at a key also what applies at the account, if one is chosen. */
export async function readEffective(
  place: Place,
  account: string | undefined,
  signal: AbortSignal,
): Promise<Effective> {
  const of = {
    ...(place.scope === "ORGANIZATION" ? {} : { account_id: place.account_id ?? account }),
    ...(place.account_id && place.symbol && { symbol: place.symbol }),
    ...(place.api_key_id && { api_key_id: place.api_key_id }),
  };
  const rules: EffectiveRule[] = [];
  let isWatchedOnly = false;
  let cursor: string | undefined;
  do {
    const query = { ...of, limit: 100, ...(cursor && { next_cursor: cursor }) };
    const page: Schemas["EffectiveControls"] = await take(api.GET("/v1/controls/effective", { params: { query }, signal }));
    // A switch in its widest position allows everything.
    rules.push(...page.data.filter(({ code, parameters }) => code !== "SWITCH" || parameters?.status !== "ACTIVE"));
    isWatchedOnly = page.watched_only;
    cursor = page.next_cursor ?? undefined;
  } while (cursor && rules.length < ROWS_MAX);
  return { rules, isWatchedOnly };
}

export async function readKinds(signal: AbortSignal): Promise<ControlKind[]> {
  return (await take(api.GET("/v1/controls/kinds", { signal }))).data;
}

const at = (place: Place, code: string) => ({ path: { code: code as Code }, query: { ...place } });

/** Undefined if it is not set. A place has at most one rule of each kind, so they are on one page. */
export async function readRule(place: Place, code: string, signal?: AbortSignal): Promise<Rule | undefined> {
  const query = { ...place, limit: 100 };
  const page = await take(api.GET("/v1/controls/rules", { params: { query }, signal }));
  return page.data.find((rule) => rule.code === code && placeKey(rule) === placeKey(place));
}

/** Sets the rule if it still has this version; 0: if it is not set. */
export function setRule(place: Place, code: string, terms: Terms, reason: string, version: number): Promise<Rule> {
  const { mode, parameters, on_missing, expires_at } = terms;
  const body = { mode, parameters, reason, ...(on_missing && { on_missing }), ...(expires_at && { expires_at }) };
  const params = { ...at(place, code), header: { "If-Match": `"${version}"` } };
  return take(api.PUT("/v1/controls/rules/{code}", { params, body }));
}

export function removeRule(place: Place, code: string, reason: string, version: number): Promise<unknown> {
  const params = { path: { code: code as Code }, query: { ...place, reason }, header: { "If-Match": `"${version}"` } };
  return take(api.DELETE("/v1/controls/rules/{code}", { params }));
}

export async function readChanges(place: Place, code: string, cursor?: string, signal?: AbortSignal) {
  const query = { ...place, code: code as Code, limit: 20, ...(cursor && { next_cursor: cursor }) };
  return take(api.GET("/v1/controls/changes", { params: { query }, signal }));
}

const EXAMPLES = 10;

/** With the rules in force, except the one that this replaces. */
export function backtest(
  account_id: string,
  place: Place,
  code: string,
  terms: Terms,
  since: string | undefined,
  signal?: AbortSignal,
): Promise<Backtest> {
  const { mode, parameters, on_missing } = terms;
  const { symbol, api_key_id } = place;
  const rule = {
    scope: place.scope,
    code: code as Code,
    parameters,
    mode,
    ...(on_missing && { on_missing }),
    ...(symbol && { symbol }),
    ...(api_key_id && { api_key_id }),
  };
  const body = { account_id, rules: [rule], replace: false, limit: EXAMPLES, ...(since && { since }) };
  return take(api.POST("/v1/controls/backtest", { body, signal }));
}

export function evaluate(account_id: string, payload: Schemas["CreatePayload"]): Promise<Schemas["Evaluation"]> {
  return take(api.POST("/v1/controls/evaluate", { body: { account_id, command: { type: "CREATE", payload } } }));
}

export async function readHeartbeats(signal: AbortSignal): Promise<Schemas["Heartbeat"][]> {
  const found: Schemas["Heartbeat"][] = [];
  const read = (next_cursor: string | undefined) =>
    api.GET("/v1/controls/heartbeats", { params: { query: { limit: 100, ...(next_cursor && { next_cursor }) } }, signal });
  for await (const each of client.items(read)) {
    if (found.push(each) === ROWS_MAX) break;
  }
  return found;
}
