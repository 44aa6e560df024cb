/**
 * Verifies the chains of an account as `openbell receipts verify` does, apart from repeating the comparison of each
 * rule: the hash of every action and receipt, both chains up to their heads, and that each receipt is of its command.
 */
import type { Schemas } from "@openbell/client";
import { compare, isDecimal } from "../../text/decimal";

export type Chained = Schemas["ChainedAction"];
export type Refusal = Pick<Schemas["StoredReceipt"], "text" | "hash" | "refusal_no">;
export type Heads = Schemas["ChainHeads"];

export interface Flaw {
  /** Which action or refusal. */
  where: string;
  what: string;
}

const encoder = new TextEncoder();

async function sha256(...parts: readonly Uint8Array[]): Promise<Uint8Array> {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

export const hex = (bytes: Uint8Array): string => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
const digest = (text: string): Promise<Uint8Array> => sha256(encoder.encode(text));

const MOMENT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)$/;

/** Microseconds since 1970 of an RFC 3339 time, as text. */
export function micros(time: string): string {
  const [, seconds = "", fraction = "", zone = ""] = MOMENT.exec(time) ?? [];
  const whole = BigInt(Date.parse(seconds + zone)) * 1000n;
  return String(whole + BigInt(fraction.padEnd(6, "0")));
}

/** SHA-256 of an action's fields, each as its length and its UTF-8, or a dash if it is absent. */
export function actionHash(action: Chained): Promise<Uint8Array> {
  const fields = [
    ...[action.id, action.intent_id, action.account_id, action.organization_id, String(action.number)],
    ...[String(action.seq), action.action_type, action.symbol, action.order_side, action.order_type],
    ...[action.route_strategy, action.quantity, action.limit_price, action.stop_price, action.time_in_force],
    ...[action.client_reference_id, action.principal_type, action.principal_id, action.receipt_id, micros(action.created_at)],
  ];
  const parts = fields.map((each) => {
    if (each === undefined || each === null) return encoder.encode("-");
    const text = encoder.encode(each);
    const length = encoder.encode(`${text.length}:`);
    const part = new Uint8Array(length.length + text.length);
    part.set(length);
    part.set(text, length.length);
    return part;
  });
  return sha256(...parts);
}

type Body = Record<string, unknown>;

function bodyOf(text: string): Body {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null && !Array.isArray(body) ? (body as Body) : {};
  } catch {
    return {};
  }
}

function isEqual(a: unknown, b: unknown): boolean {
  if (isDecimal(a) && isDecimal(b)) return compare(a, b) === 0;
  return (a ?? undefined) === (b ?? undefined);
}

/** The first field in which the receipt's command differs from the action. */
function difference(action: Chained, body: Body): string | undefined {
  const command = body.command as Body | undefined;
  if (typeof command !== "object" || command === null) return undefined;
  const same = (["action_type", "symbol", "order_side", "order_type", "time_in_force"] as const).filter((name) => name in command);
  const numbers = "quantity" in command ? (["quantity", "limit_price", "stop_price"] as const) : [];
  return [...same, ...numbers].find((name) => !isEqual(command[name], action[name]));
}

function wrongVerdict(body: Body, expected: string): boolean {
  const rules = Array.isArray(body.rules) ? (body.rules as Body[]) : [];
  const byRules = rules.some(({ verdict }) => verdict === "REFUSED") ? "REFUSED" : "PASSED";
  return body.verdict !== expected || byRules !== expected;
}

export class Verification {
  actions = 0;
  refusals = 0;
  /** The first that differs, of each kind; empty if nothing does. */
  readonly flaws: Flaw[] = [];
  found = 0;
  #head: Uint8Array = new Uint8Array(32);
  #refusalHead: Uint8Array = new Uint8Array(32);
  #from: number | undefined;
  #set: Uint8Array[] = [];
  /** Heads that were stored elsewhere, by how many actions or refusals they are after. */
  readonly #known: { actions?: readonly [number, string]; refusals?: readonly [number, string] };

  constructor(known: { actions?: readonly [number, string]; refusals?: readonly [number, string] } = {}) {
    this.#known = { ...known };
  }

  get chainHead(): string {
    return hex(this.#head);
  }

  get refusalHead(): string {
    return hex(this.#refusalHead);
  }

  async action(action: Chained): Promise<void> {
    const where = `action ${action.number} (${action.id})`;
    if (action.number !== this.actions + 1) this.#blame(where, `action ${this.actions + 1} should be here`);
    this.actions++;
    const own = await actionHash(action);
    const receipt = await digest(action.receipt_text);
    if (hex(own) !== action.hash) this.#blame(where, "its hash is not that of its fields");
    this.#checkReceipt(where, action.receipt_text, receipt, action.receipt_hash, "PASSED");
    const name = difference(action, bodyOf(action.receipt_text));
    if (name) this.#blame(where, `its receipt is about another ${name}`);
    if (action.chained_from === action.number) {
      await this.#close(action.number - 1);
      this.#from = action.number;
    } else if (action.chained_from !== this.#from) {
      this.#blame(where, `it claims to be accepted together with action ${action.chained_from}, but it was not`);
    }
    this.#set.push(own, receipt);
  }

  async refusal(refusal: Refusal): Promise<void> {
    const where = `refusal ${refusal.refusal_no}`;
    if (refusal.refusal_no !== this.refusals + 1) this.#blame(where, `refusal ${this.refusals + 1} should be here`);
    this.refusals++;
    const receipt = await digest(refusal.text);
    this.#checkReceipt(where, refusal.text, receipt, refusal.hash, "REFUSED");
    this.#refusalHead = await sha256(this.#refusalHead, receipt);
    this.#compare("refusals", this.refusals, this.refusalHead);
  }

  /** Compare with the heads that the platform states. */
  async end(heads: Heads): Promise<void> {
    await this.#close(this.actions);
    const pairs = [
      ["actions", this.actions, heads.actions, this.chainHead, heads.chain_head],
      ["refusals", this.refusals, heads.refusals, this.refusalHead, heads.refusal_head],
    ] as const;
    for (const [what, counted, stated, head, statedHead] of pairs) {
      if (counted !== stated) this.#blame("the end", `there are ${counted} ${what}, and the account states ${stated}`);
      if (head !== statedHead) this.#blame("the end", `the chain of the ${what} ends at ${head}, and the account states ${statedHead}`);
      const known = this.#known[what];
      if (known) this.#blame("the end", `the chain of ${what} has no head at ${known[0]}, for which a head was given`);
    }
  }

  #checkReceipt(where: string, text: string, computed: Uint8Array, stated: string, verdict: string): void {
    if (hex(computed) !== stated) this.#blame(where, "its receipt's hash is not that of its text");
    if (wrongVerdict(bodyOf(text), verdict)) this.#blame(where, `its receipt's verdict is not ${verdict}`);
  }

  async #close(last: number): Promise<void> {
    if (!this.#set.length) return;
    this.#head = await sha256(this.#head, ...this.#set);
    this.#set = [];
    this.#compare("actions", last, this.chainHead);
  }

  #compare(what: "actions" | "refusals", number: number, head: string): void {
    const known = this.#known[what];
    if (known?.[0] !== number) return;
    delete this.#known[what];
    if (known[1] !== head) this.#blame("the end", `the head of the chain is ${head} after ${number} ${what}, not ${known[1]}`);
  }

  #blame(where: string, what: string): void {
    if (this.found++ < 20) this.flaws.push({ where, what });
  }
}

/** A head that was stored elsewhere, "12:ab…"; undefined if the text is none. */
export function headOf(text: string): readonly [number, string] | undefined {
  const found = /^(\d{1,15}):([0-9a-f]{64})$/i.exec(text.trim());
  return found ? [Number(found[1]), (found[2] as string).toLowerCase()] : undefined;
}
