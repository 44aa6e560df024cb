/** Commands that repeat what a page shows, in the languages of the documentation. */

export interface Terms {
  account: string;
  symbol: string;
  side: string;
  type: string;
  quantity: string;
  timeInForce: string;
  limit?: string;
  stop?: string;
  /** The idempotency key of the command: run twice, it is recorded once. */
  key: string;
}

const SPECS: Record<string, string> = { MARKET: "Market", LIMIT: "Limit", STOP: "Stop", STOP_LIMIT: "StopLimit" };
const SPEC_FUNCTIONS: Record<string, string> = { MARKET: "market", LIMIT: "limit", STOP: "stop", STOP_LIMIT: "stopLimit" };

function specBody({ type, quantity, timeInForce, limit, stop }: Terms) {
  const prices = { ...(stop && { stop_price: stop }), ...(limit && { price: limit }) };
  return { [SPECS[type] ?? "Market"]: { ...prices, quantity, time_in_force: timeInForce } };
}

/** The same order as a new one: another intent, under a key of its own. The other languages make a key themselves. */
export function submitCommands(terms: Terms): Record<string, string> {
  return { CLI: cli(terms), curl: curl(terms), Python: python(terms), TypeScript: typescript(terms) };
}

function cli({ account, symbol, side, quantity, timeInForce, limit, stop }: Terms): string {
  const options = [
    limit && `--limit ${limit}`,
    stop && `--stop ${stop}`,
    `--time-in-force ${timeInForce.toLowerCase()}`,
    `--account ${account}`,
    "--wait",
  ].filter(Boolean);
  return `openbell intents create ${symbol} ${side} ${quantity} \\\n  ${options.join(" ")}`;
}

function curl(terms: Terms): string {
  const payload = { symbol: terms.symbol, order_side: terms.side, spec: specBody(terms) };
  const body = JSON.stringify({ command: { type: "CREATE", payload } });
  return [
    `curl -sS "$OPENBELL_URL/v1/accounts/${terms.account}/intents" \\`,
    `  -H "x-api-key: $OPENBELL_API_KEY" \\`,
    `  -H "Idempotency-Key: ${terms.key}" \\`,
    `  -H "Content-Type: application/json" \\`,
    `  -d '${body}'`,
  ].join("\n");
}

function python(terms: Terms): string {
  const { account, symbol, side, type, quantity, timeInForce, limit, stop } = terms;
  const name = SPECS[type] ?? "Market";
  const fields = [
    `quantity="${quantity}"`,
    stop && `stop_price="${stop}"`,
    limit && `price="${limit}"`,
    `time_in_force="${timeInForce}"`,
  ].filter(Boolean);
  return [
    `from openbell import Client, ${name}`,
    "",
    `order = ${name}(${fields.join(", ")})`,
    `with Client(account_id="${account}") as client:`,
    `    intent = client.create_intent(symbol="${symbol}", side="${side}", spec=order)`,
    "    print(client.wait(intent.intent_id).execution)",
  ].join("\n");
}

function typescript(terms: Terms): string {
  const { account, symbol, side, type, quantity, timeInForce, limit, stop } = terms;
  const name = SPEC_FUNCTIONS[type] ?? "market";
  const numbers = [quantity, stop, limit].filter(Boolean).map((each) => `"${each}"`);
  return [
    `import { Client, ${name} } from "@openbell/client";`,
    "",
    "const { OPENBELL_URL: baseUrl, OPENBELL_API_KEY: apiKey } = process.env;",
    "const client = new Client({ baseUrl, apiKey });",
    `const account = "${account}";`,
    `const order = ${name}(${numbers.join(", ")}, { time_in_force: "${timeInForce}" });`,
    `const intent = await client.createIntent(account, "${symbol}", "${side}", order);`,
    "console.log((await client.wait(account, intent.intent_id)).execution);",
  ].join("\n");
}

/** Reads the intent. */
export function readCommands(account: string, intent: string): Record<string, string> {
  return {
    CLI: `openbell intents show ${intent} \\\n  --account ${account}`,
    curl: `curl -sS "$OPENBELL_URL/v1/accounts/${account}/intents/${intent}" \\\n  -H "x-api-key: $OPENBELL_API_KEY"`,
    Python: [
      "from openbell import Client",
      "",
      `with Client(account_id="${account}") as client:`,
      `    print(client.intent("${intent}"))`,
    ].join("\n"),
    TypeScript: [
      `import { Client } from "@openbell/client";`,
      "",
      "const { OPENBELL_URL: baseUrl, OPENBELL_API_KEY: apiKey } = process.env;",
      "const client = new Client({ baseUrl, apiKey });",
      `console.log(await client.intent("${account}", "${intent}"));`,
    ].join("\n"),
  };
}

/** Reads the receipt. */
export function receiptCommands(account: string, receipt: string): Record<string, string> {
  return {
    CLI: `openbell receipts show ${receipt} \\\n  --account ${account}`,
    curl: `curl -sS "$OPENBELL_URL/v1/accounts/${account}/receipts/${receipt}" \\\n  -H "x-api-key: $OPENBELL_API_KEY"`,
    Python: [
      "from openbell import Client",
      "",
      `with Client(account_id="${account}") as client:`,
      `    print(client.receipt("${receipt}"))`,
    ].join("\n"),
  };
}
