// A server of one test: answers as it is told, and remembers what it was asked.
import { createServer } from "node:http";

export const KEY = "ob_paper_public_secret_sum";
export const ACCOUNT = "01981d3c-7a00-7000-8000-000000000002";
export const INTENT = "01981d3c-7a00-7000-8000-000000000003";

/** Serve until the test ends; `answer` gets the request with its body, the response, and how many came before. */
export async function serve(test, answer) {
  const requests = [];
  const server = createServer(async (request, response) => {
    const chunks = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method, url, headers } = request;
    const text = Buffer.concat(chunks).toString();
    requests.push({ method, url, headers, body: text ? JSON.parse(text) : undefined });
    await answer({ ...requests.at(-1), socket: request.socket }, response, requests.length - 1);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}

/** An address at which nobody listens. */
export async function nobody() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return `http://127.0.0.1:${port}`;
}

export function reply(response, status, body, headers = {}) {
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
}

export function refuse(response, status, code, headers = {}) {
  const problem = {
    type: `urn:openbell:problem:${code}`,
    title: `The title of ${code}`,
    status,
    detail: `About ${code}`,
  };
  const errors = [{ pointer: "/command", code: "invalid", message: "must be another" }];
  reply(response, status, { ...problem, code, remedy: `The remedy of ${code}`, request_id: "4f6b", errors }, headers);
}

/** The whole header, half of the body, and the end of the connection. */
export function cutInTheMiddle(response, status, body) {
  const text = JSON.stringify(body);
  response.writeHead(status, { "content-type": "application/json", "content-length": text.length });
  response.write(text.slice(0, text.length / 2), () => response.socket.destroy());
}

export const ACTION = { id: "1", intent_id: INTENT, account_id: ACCOUNT, status: "QUEUED", quantity: "10" };
