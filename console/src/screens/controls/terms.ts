/** Terms of rules: what differs, and whether two are the same. */
import type { Schemas } from "@openbell/client";
import { grouped, isDecimal } from "../../text/decimal";
import { full } from "../../text/time";
import { plain } from "../../text/words";
import { type Parameters, text } from "./schema";

export type Terms = Schemas["Terms"];

export interface Difference {
  name: string;
  before: string;
  after: string;
}

const shown = (value: unknown): string => (isDecimal(text(value)) ? grouped(text(value)) : text(value));

/** "quantity 500; currency USD". */
export function parametersText(parameters: Parameters | undefined): string {
  const entries = Object.entries(parameters ?? {});
  if (!entries.length) return "no parameters";
  return entries.map(([name, value]) => `${plain(name)} ${shown(value)}`).join("; ");
}

export const MODE_WORDS: Record<string, string> = { HARD: "refuses", SHADOW: "only records (shadow)" };
export const MISSING_WORDS: Record<string, string> = { DENY: "refuse", ALLOW: "let pass" };

function rows(terms: Terms | undefined): [string, string][] {
  if (!terms) return [];
  return [
    ...Object.entries(terms.parameters).map(([name, value]): [string, string] => [plain(name), shown(value)]),
    ["mode", MODE_WORDS[terms.mode] ?? terms.mode],
    ...(terms.on_missing ? [["if an input is missing", MISSING_WORDS[terms.on_missing] ?? ""] as [string, string]] : []),
    ...(terms.expires_at ? [["until", full(terms.expires_at)] as [string, string]] : []),
  ];
}

/** What changes from one to the other; a side that is not there is empty. */
export function differences(before: Terms | undefined, after: Terms | undefined): Difference[] {
  const [old, now] = [new Map(rows(before)), new Map(rows(after))];
  const names = new Set([...old.keys(), ...now.keys()]);
  return [...names]
    .map((name) => ({ name, before: old.get(name) ?? "", after: now.get(name) ?? "" }))
    .filter((each) => each.before !== each.after);
}

/** The same text for the same terms, in whatever order their parts are. */
export function termsKey({ parameters, mode, on_missing, expires_at }: Terms): string {
  const sorted = Object.keys(parameters)
    .sort()
    .map((name) => [name, Array.isArray(parameters[name]) ? [...(parameters[name] as string[])].sort() : parameters[name]]);
  const until = expires_at ? new Date(expires_at).getTime() : null;
  return JSON.stringify([sorted, mode, on_missing ?? null, until]);
}

/** "2026-11-20T21:30" of the field, which is in UTC, as the API takes it. */
export const untilTime = (field: string): string | undefined => (field ? `${field.slice(0, 16)}:00Z` : undefined);
export const untilField = (time: string | undefined): string => time?.slice(0, 16) ?? "";

/** Rules that are evaluated only at the door leave no trace that a back-test could use. */
export const CANNOT_BACKTEST: Record<string, string> = {
  STALE_ORDER: "This kind is evaluated only at the door, just before a command is sent, so it cannot be back-tested.",
};
