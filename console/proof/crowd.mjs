// What open consoles cost the api: calls a second while orders are filled and nobody touches a page.
import { control, launch, settings, submit, Visitor } from "./browser.mjs";

const sleep = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
const browser = await launch();
const visitors = [];
for (let number = 0; number < settings.users; number += 1) {
  const visitor = await Visitor.enter(browser, "member");
  await visitor.open(settings.paths[number % settings.paths.length]);
  visitors.push(visitor);
}
await sleep(3);
await control("calls");
let sent = 0;
const begun = Date.now();
while (Date.now() - begun < settings.seconds * 1000) {
  const due = Math.floor(((Date.now() - begun) / 1000) * settings.rate);
  await Promise.all(Array.from({ length: due - sent }, (_, n) => submit("AAPL", { Market: { quantity: "1" } }, settings.accounts[n % settings.accounts.length])));
  sent = Math.max(sent, due);
  await sleep(0.05);
}
await sleep(1);
const seconds = (Date.now() - begun) / 1000;
const calls = await control("calls");
const rows = await Promise.all(visitors.map(async (visitor) => (await visitor.seen()).events.length));
await browser.close();
console.log(JSON.stringify({ sent, seconds, calls, total: Object.values(calls).reduce((a, b) => a + b, 0), events: rows }));
