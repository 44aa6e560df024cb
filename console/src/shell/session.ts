/** Who is signed in, what they may do, and which accounts there are. */
import { computed, effect, signal } from "@preact/signals";
import { client, consoleCall, type Schemas, signedOut } from "../api/api";
import { listen } from "../live/live";
import { match, path, query } from "./router";

export type Me = Schemas["Me"];
export type Account = Schemas["Account"];
export interface Session {
  plane: string;
  expires_at: string;
  version: string;
}

export const me = signal<Me | undefined>(undefined);
export const session = signal<Session | undefined>(undefined);
export const accounts = signal<readonly Account[]>([]);
export const openAccounts = computed(() => accounts.value.filter((each) => !each.closed_at));

/** The account of the address, or undefined if the page is about all of them. */
export const account = computed<Account | undefined>(() => {
  const inPath = match("/accounts/{id}/.+", path.value)?.id ?? match("/accounts/{id}", path.value)?.id;
  const id = inPath ?? query.value.get("account");
  return accounts.value.find((each) => each.id === id);
});

export const accountName = (id: string): string => accounts.value.find((each) => each.id === id)?.name ?? id;

/** An address that keeps the chosen account. */
export function withAccount(to: string): string {
  const id = account.value?.id;
  return id && !to.startsWith("/accounts/") ? `${to}${to.includes("?") ? "&" : "?"}account=${id}` : to;
}

/** Names of operations are those of GET /v1/me. */
export const can = (operation: string): boolean => me.value?.operations.includes(operation) ?? false;

/** Why a disabled action is not allowed; empty if it is. */
export function denial(operation: string, what: string): string {
  if (can(operation)) return "";
  const role = me.value?.role;
  return `Your role ${role ? `“${role.replaceAll("_", " ")}” ` : ""}may not ${what}. An admin of your organization can.`;
}

/** False if nobody is signed in. Throws if the server cannot be reached. */
export async function readSession(): Promise<boolean> {
  const answer = await consoleCall("session");
  if (answer.status === 401) return false;
  if (!answer.ok) throw new Error(`the console's server answered ${answer.status}`);
  session.value = (await answer.json()) as Session;
  return true;
}

let markRead: () => void = () => undefined;
/** Ends when it is known who is signed in and which accounts there are. */
export const whoIsRead = new Promise<void>((resolve) => {
  markRead = resolve;
});

const ACCOUNTS_MAX = 1000;

export async function readWho(): Promise<void> {
  const found: Account[] = [];
  const reading = client.me();
  for await (const each of client.accounts()) {
    if (found.push(each) === ACCOUNTS_MAX) break;
  }
  me.value = await reading;
  accounts.value = found;
  markRead();
}

export async function readAccount(id: string): Promise<void> {
  const params = { path: { account_id: id } };
  const read = await client.take(client.api.GET("/v1/accounts/{account_id}", { params }));
  const known = accounts.peek();
  accounts.value = known.some((each) => each.id === id)
    ? known.map((each) => (each.id === id ? read : each))
    : [...known, read];
}

const CHANNEL = "openbell-session";
const channel = new BroadcastChannel(CHANNEL);

/** Tell the other tabs, and look again in this one. */
export function announceSignIn(): void {
  channel.postMessage("signed-in");
}

async function lookAgain(): Promise<void> {
  if (signedOut.peek() && (await readSession().catch(() => false))) signedOut.value = false;
}

channel.addEventListener("message", () => void lookAgain());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) void lookAgain();
});
addEventListener("focus", () => void lookAgain());

// The answer can be older than a sign-in that another tab has just made.
const LOOK_AGAIN_MILLIS = 1000;
let wasSignedOut = false;
effect(() => {
  if (signedOut.value) {
    wasSignedOut = true;
    setTimeout(() => void lookAgain(), LOOK_AGAIN_MILLIS);
  } else if (wasSignedOut) {
    wasSignedOut = false;
    void readWhoAgain();
  }
});

async function readWhoAgain(): Promise<void> {
  const before = me.peek();
  await readWho().catch(() => undefined);
  const after = me.peek();
  // What is on the page belongs to the person who was signed in before.
  const isSame = before?.principal_id === after?.principal_id && before?.organization?.id === after?.organization?.id;
  if (before && !isSame) location.reload();
}

/** Read an account again when an event reports that it changed. */
export function watchAccounts(): void {
  listen({
    events: (events) => {
      const changed = events.filter(({ type }) => type === "ACCOUNT_CHANGED").map(({ account_id }) => account_id);
      for (const id of new Set(changed)) void readAccount(id).catch(() => undefined);
    },
  });
}

export async function signOut(everywhere = false): Promise<void> {
  await consoleCall(everywhere ? "logout-everywhere" : "logout", "POST");
  location.assign("/console/signed-out");
}
