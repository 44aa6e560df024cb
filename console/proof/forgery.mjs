// A page of another origin, and one of another site, that try to change something with the cookie of a signed-in user.
import http from "node:http";
import { launch, settings, Visitor } from "./browser.mjs";

const server = http.createServer((_, answer) => answer.writeHead(200, { "content-type": "text/html" }).end("<!doctype html><title>elsewhere</title><form></form>")).listen(0, "127.0.0.1");
await new Promise((resolve) => server.once("listening", resolve));
const port = server.address().port;
const browser = await launch();
const visitor = await Visitor.enter(browser, "admin");
await visitor.open("/orders");
const target = `${settings.url}/v1/accounts/${settings.account}/desk-commands`;
const answers = [];
visitor.context.on("response", (response) => response.url().startsWith(settings.url) && response.request().method() !== "GET" && answers.push([response.request().method(), response.status()]));
const tries = [
  ["form", (url) => { const form = document.createElement("form"); form.method = "post"; form.action = url; form.enctype = "text/plain"; document.body.append(form); form.submit(); }],
  ["fetch", (url) => fetch(url, { method: "POST", credentials: "include", mode: "no-cors", body: "{}" }).catch(() => undefined)],
  ["fetch with the header", (url) => fetch(url, { method: "POST", credentials: "include", headers: { "x-openbell-console": "1", "content-type": "application/json" }, body: "{}" }).catch(() => undefined)],
  ["sign-out", (url) => fetch(new URL("/console/logout", url), { method: "POST", credentials: "include", mode: "no-cors" }).catch(() => undefined)],
];
let made = 0;
for (const host of ["127.0.0.1", "localhost"]) {
  for (const [, attempt] of tries) {
    const page = await visitor.context.newPage();
    await page.goto(`http://${host}:${port}/`);
    await page.evaluate(attempt, target).catch(() => undefined);
    await page.waitForTimeout(500);
    await page.close();
    made += 1;
  }
}
// In the page itself without the header, and with it but nothing else wrong: the rule is about the header and the origin.
const without = await visitor.page.evaluate(async (url) => (await fetch(url, { method: "POST", body: "{}" })).status, target);
const session = await visitor.page.evaluate(async () => (await fetch("/console/session")).status);
await browser.close();
server.close();
console.log(JSON.stringify({ made, answers, without, session, passed: answers.filter(([method, status]) => method === "POST" && status < 400).length }));
