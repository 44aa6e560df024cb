/** The API, through the console's own server: the session is in a cookie that no script can read. */
import { Client, type Schemas } from "@openbell/client";
import { signal } from "@preact/signals";

/** True while the server says that nobody is signed in; the pages stay as they are. */
export const signedOut = signal(false);

async function send(input: RequestInfo | URL, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, init);
  if (response.status === 401) signedOut.value = true;
  return response;
}

const HEADERS = { "x-openbell-console": "1" };

export const client = new Client({ baseUrl: location.origin, headers: HEADERS, fetch: send });
/** Every operation of the API, typed: `take(api.GET("/v1/brokers"))`. */
export const api = client.api;
export const take = client.take.bind(client);

export type { Schemas };

export { type Failure, failureOf } from "./failures";

/** A request to the console's server itself, such as "session" or "logout". */
export function consoleCall(path: string, method: "GET" | "POST" = "GET"): Promise<Response> {
  return fetch(`/console/${path}`, { method, headers: HEADERS, signal: AbortSignal.timeout(10_000) });
}
