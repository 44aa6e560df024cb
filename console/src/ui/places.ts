/** Where a rule or a switch is: the organization, an account, one symbol of an account, or an API key. */
import type { Schemas } from "@openbell/client";

export const SCOPES = ["ORGANIZATION", "ACCOUNT", "SYMBOL", "KEY"] as const;
export type PlaceScope = (typeof SCOPES)[number];

export interface Place {
  readonly scope: PlaceScope;
  readonly account_id?: string;
  readonly symbol?: string;
  readonly api_key_id?: string;
}

export const SCOPE_WORDS: Record<string, string> = {
  PLATFORM: "Platform",
  ORGANIZATION: "Organization",
  ACCOUNT: "Account",
  SYMBOL: "Symbol",
  KEY: "API key",
};

/** Whatever names a place: a switch, a rule, a report. */
export interface Placed {
  readonly scope: Schemas["Scope"];
  readonly account_id?: string;
  readonly symbol?: string;
  readonly api_key_id?: string;
}

/** The place with the parameters of its scope only, as the API takes them. */
export function placeOf(of: Placed): Place {
  switch (of.scope) {
    case "ACCOUNT":
      return { scope: "ACCOUNT", account_id: of.account_id };
    case "SYMBOL":
      return { scope: "SYMBOL", account_id: of.account_id, symbol: of.symbol };
    case "KEY":
      return { scope: "KEY", api_key_id: of.api_key_id };
    default:
      return { scope: "ORGANIZATION" };
  }
}

/** One text for each place. */
export const placeKey = ({ scope, account_id = "", symbol = "", api_key_id = "" }: Placed): string =>
  scope === "KEY"
    ? `KEY ${api_key_id}`
    : scope === "SYMBOL"
      ? `SYMBOL ${account_id} ${symbol}`
      : scope === "ACCOUNT"
        ? `ACCOUNT ${account_id}`
        : scope;

/** Whether the place is named completely. */
export function isComplete({ scope, account_id, symbol, api_key_id }: Place): boolean {
  if (scope === "ORGANIZATION") return true;
  if (scope === "KEY") return !!api_key_id;
  return !!account_id && (scope === "ACCOUNT" || !!symbol);
}

/** The place in an address: "?scope=symbol&account=…&symbol=AAPL&key=…"; without a scope the account, or all. */
export function placeIn(query: URLSearchParams, account: string | undefined): Place {
  const asked = query.get("scope")?.toUpperCase();
  const scope = SCOPES.find((each) => each === asked) ?? (account ? "ACCOUNT" : "ORGANIZATION");
  return placeOf({
    scope,
    account_id: account,
    symbol: query.get("symbol")?.toUpperCase() || undefined,
    api_key_id: query.get("key") || undefined,
  });
}

/** The parameters of the address of a place; undefined removes one. */
export function placeQuery(place: Placed): Record<string, string | undefined> {
  const { scope, account_id, symbol, api_key_id } = place;
  return {
    scope: scope.toLowerCase(),
    symbol: scope === "SYMBOL" ? symbol : undefined,
    key: scope === "KEY" ? api_key_id : undefined,
    ...(account_id && { account: account_id }),
  };
}

/** The address of a screen about a place. */
export function addressOf(screen: string, place: Placed, more: Record<string, string | undefined> = {}): string {
  const all = Object.entries({ ...placeQuery(place), ...more });
  return `${screen}?${new URLSearchParams(all.filter((each): each is [string, string] => !!each[1]))}`;
}

/** Whether what is set at `of` also applies at `at`, because it is the same place or a wider one. */
export function covers(of: Placed, at: Place): boolean {
  if (of.scope === "PLATFORM" || of.scope === "ORGANIZATION") return true;
  if (of.scope === "ACCOUNT") return at.account_id === of.account_id && at.scope !== "KEY";
  return placeKey(of) === placeKey(at);
}

/** Quoted for a shell, if it has to be. */
export const quoted = (text: string): string =>
  /^[A-Za-z0-9_@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;

/** The options of a place on the command line. */
export function placeOptions({ scope, account_id, symbol, api_key_id }: Place): string {
  if (scope === "ORGANIZATION") return "--organization";
  if (scope === "KEY") return `--api-key-id ${api_key_id}`;
  return `--account ${account_id}${scope === "SYMBOL" ? ` --symbol ${quoted(symbol ?? "")}` : ""}`;
}

/** The same for the Python library. */
export function placeArguments({ scope, account_id, symbol, api_key_id }: Place): string {
  if (scope === "ORGANIZATION") return "organization=True";
  if (scope === "KEY") return `api_key_id="${api_key_id}"`;
  return `account_id="${account_id}"${scope === "SYMBOL" ? `, symbol="${symbol}"` : ""}`;
}
