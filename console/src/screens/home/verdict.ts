/** What to look at, worst first, as sentences with their links. */
import type { Schemas } from "@openbell/client";
import { haltAddress } from "../../text/addresses";
import { canTrade, hasBadCredential } from "../../text/accounts";
import { ago, span } from "../../text/time";
import { count } from "../../text/words";

export type Level = "doubt" | "stop" | "bad" | "note";
export interface Item {
  level: Level;
  text: string;
  /** The screen that shows it, and mends it if it can be mended. */
  to: string;
  link: string;
}

export interface Facts {
  accounts: readonly Schemas["Account"][];
  overviews: readonly Schemas["AccountOverview"][];
  /** When each order in doubt was submitted; the oldest first. */
  unknown: readonly string[];
  switches: readonly Schemas["Switch"][];
  webhooks: readonly Schemas["Webhook"][];
  /** Refusals of the last hour, by rule. */
  refusals: readonly (readonly [string, number])[];
  now: number;
}

// A command that waits longer than this is worth a look.
const QUEUED_SECONDS = 15;

const nameOf = ({ accounts }: Facts, id: string | undefined): string =>
  accounts.find((each) => each.id === id)?.name ?? id ?? "";

export function switchText(facts: Facts, each: Schemas["Switch"]): string {
  const what = each.status === "HALTED" ? "Halted" : "Only reducing";
  const where = {
    ORGANIZATION: "the whole organization",
    ACCOUNT: nameOf(facts, each.account_id),
    SYMBOL: `${each.symbol ?? ""} on ${nameOf(facts, each.account_id)}`,
    KEY: `the API key ${each.api_key_id ?? ""}`,
    PLATFORM: "the whole platform",
  }[each.scope];
  const since = each.updated_at ? `, since ${span(Math.floor((facts.now - Date.parse(each.updated_at)) / 1000))}` : "";
  return `${what}: ${where}${each.reason ? `, because “${each.reason}”` : ""}${since}.`;
}

function ofUnknown({ unknown, now }: Facts): Item[] {
  const [oldest] = unknown;
  if (oldest === undefined) return [];
  const was = `${unknown.length > 1 ? "The oldest" : "It"} was submitted ${ago(oldest, now)} ago`;
  const text = `${count(unknown.length, "order")} in doubt: it is not known what the broker did. ${was}.`;
  return [{ level: "doubt", text, to: "/unknown", link: "See the evidence" }];
}

function ofAccounts(facts: Facts): Item[] {
  const found: Item[] = [];
  for (const account of facts.accounts) {
    if (account.closed_at || account.disabled) continue;
    const { sentence, isGood, word } = canTrade(account);
    if (isGood) continue;
    const link = hasBadCredential(account) ? "Replace the credential" : "Open the account";
    const level = word === "Waits" ? "note" : "bad";
    found.push({ level, text: `${account.name} cannot trade now. ${sentence}`, to: `/accounts?account=${account.id}`, link });
  }
  return found;
}

function ofDisabled({ accounts }: Facts): Item[] {
  const disabled = accounts.filter((each) => each.disabled && !each.closed_at);
  if (!disabled.length) return [];
  const names = disabled.slice(0, 3).map(({ name }) => name).join(", ");
  const more = disabled.length > 3 ? ` and ${disabled.length - 3} more` : "";
  return [{ level: "note", text: `Disabled: ${names}${more}.`, to: "/accounts", link: "Open the accounts" }];
}

function ofWaiting(facts: Facts): Item[] {
  const found: Item[] = [];
  for (const { account_id, oldest_queued_at } of facts.overviews) {
    if (!oldest_queued_at) continue;
    const seconds = Math.floor((facts.now - Date.parse(oldest_queued_at)) / 1000);
    if (seconds < QUEUED_SECONDS) continue;
    const text = `A command of ${nameOf(facts, account_id)} waited ${span(seconds)} to be sent when this was read.`;
    found.push({ level: "bad", text, to: `/orders?account=${account_id}&state=queued`, link: "See what waits" });
  }
  return found;
}

function ofWebhooks({ webhooks }: Facts): Item[] {
  const found: Item[] = [];
  for (const { id, url, status, lanes } of webhooks) {
    const where = new URL(url).host;
    const to = `/webhooks?webhook=${id}`;
    if (status === "GONE") {
      found.push({ level: "bad", text: `The webhook ${where} ended: its target answered 410.`, to, link: "Resume it" });
    } else if (lanes && (lanes.parked || lanes.failing)) {
      const parked = lanes.parked ? `, parked for ${count(lanes.parked, "account")}` : "";
      const text = `The webhook ${where} fails for ${count(Math.max(lanes.failing, lanes.parked), "account")}${parked}.`;
      found.push({ level: "bad", text, to, link: "See why" });
    }
  }
  return found;
}

function ofRefusals({ refusals }: Facts): Item[] {
  const total = refusals.reduce((sum, [, number]) => sum + number, 0);
  if (!total) return [];
  const rules = refusals.slice(0, 3).map(([code, number]) => `${code} ${number}`).join(", ");
  const text = `${count(total, "command")} refused in the last hour: ${rules}.`;
  return [{ level: "note", text, to: "/orders?state=refused", link: "Read the reasons" }];
}

export function verdictOf(facts: Facts): Item[] {
  const halts = facts.switches
    .filter(({ status }) => status !== "ACTIVE")
    .map((each): Item => ({ level: "stop", text: switchText(facts, each), to: haltAddress(each), link: "Open the halt" }));
  return [
    ...ofUnknown(facts),
    ...halts,
    ...ofAccounts(facts),
    ...ofWaiting(facts),
    ...ofWebhooks(facts),
    ...ofRefusals(facts),
    ...ofDisabled(facts),
  ].sort((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));
}

const LEVELS: readonly Level[] = ["doubt", "stop", "bad", "note"];

/** One sentence about all of it. */
export function headline(items: readonly Item[], open: number): string {
  const loud = items.filter(({ level }) => level !== "note").length;
  const rest = items.length - loud;
  if (!items.length) return `All well. ${count(open, "account")} can trade, nothing is in doubt, nothing is halted.`;
  if (!loud) return `All well · ${count(rest, "thing")} to know`;
  return `${count(loud, "thing")} to look at, the worst first${rest ? ` · ${rest} more to know` : ""}`;
}
