// How soon an order is on the screen, and whether the events of a browser are whole after cuts of its stream.
import { control, launch, quantile, settings, submit, until, Visitor, PATIENCE } from "./browser.mjs";

const browser = await launch();
const visitor = await Visitor.enter(browser, "admin");
await visitor.open("/orders");
const lamp = () => visitor.page.evaluate(() => window.__seen.events.length);

async function latencies(count) {
  const sent = [];
  for (let number = 0; number < count; number += 1) {
    const { status, body, at } = await submit("AAPL", { Limit: { price: "0.5", quantity: "1" } });
    if (status !== 202) throw new Error(`submit was answered ${status}: ${JSON.stringify(body)}`);
    sent.push([body.intent_id, at]);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  await until(async () => sent.every(([id]) => id in seen.rows) || ((seen = await visitor.seen()), sent.every(([id]) => id in seen.rows)), "every order is a row");
  return sent.map(([id, at]) => Math.max(0, seen.rows[id] - at));
}

async function cuts() {
  const placed = [];
  const accounts = settings.accounts;
  const before = (await visitor.seen()).events.length;
  for (const fault of settings.faults) {
    await control(`cut/${fault}`);
    for (let number = 0; number < settings.between; number += 1) placed.push(await submit("MSFT", { Market: { quantity: "1" } }, accounts[number % accounts.length]));
    if (fault === "401") await visitor.signInAgain();
    await until(() => control("met"), `the stream stands again after ${fault}`);
    placed.push(await submit("MSFT", { Market: { quantity: "1" } }));
  }
  const last = await newest(accounts);
  await until(async () => {
    const { events } = await visitor.seen();
    return Object.entries(last).every(([account, seq]) => events.some(([of, number]) => of === account && number === seq));
  }, "the newest event of every account came");
  const { events } = await visitor.seen();
  const found = { before, after: events.length, gaps: 0, twice: 0, begun: 0 };
  let latest = {};
  for (const [account, seq] of events) {
    // After a restored database the pages read everything again, and the numbers go on from there.
    if (account === "begun") {
      latest = {};
      found.begun += 1;
      continue;
    }
    if (account in latest && seq <= latest[account]) found.twice += 1;
    if (account in latest && seq > latest[account] + 1) found.gaps += 1;
    latest[account] = Math.max(seq, latest[account] ?? 0);
  }
  found.log = events.map(([account, seq]) => (account === "begun" ? "begun" : `${account.slice(-3)}:${seq}`)).join(" ");
  found.placed = placed.length;
  const { rows } = await visitor.seen();
  found.missing = placed.filter(({ body }) => !(body.intent_id in rows)).length;
  return found;
}

// The number of the newest event of each account, once it no longer grows.
async function newest(accounts) {
  let last = {};
  await until(async () => {
    const now = {};
    for (const account of accounts) {
      const answer = await fetch(`${settings.api}/v1/events?account_id=${account}&after_seq=0&limit=1`, { headers: { "x-api-key": settings.key } });
      now[account] = (await answer.json()).newest_seq ?? -1;
    }
    const same = JSON.stringify(now) === JSON.stringify(last);
    last = now;
    if (!same) await new Promise((resolve) => setTimeout(resolve, 2000));
    return same;
  }, "the log is quiet");
  return last;
}

let seen = await visitor.seen();
// Until its stream stands, nothing is live.
await until(async () => { await submit("SPY", { Market: { quantity: "1" } }); await new Promise((r) => setTimeout(r, 500)); return (await lamp()) > 0; }, "the first event came");
const millis = await latencies(settings.orders);
const cut = await cuts();
await browser.close();
console.log(JSON.stringify({ orders: millis.length, p50: quantile(millis, 0.5), p95: quantile(millis, 0.95), max: Math.max(...millis), cut, errors: visitor.violations }));
