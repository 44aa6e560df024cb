// CPU of the page's main thread, by thread time, while the blotter scrolls through all rows that it keeps.
import { launch, settings, Visitor } from "./browser.mjs";

const browser = await launch();
const visitor = await Visitor.enter(browser, "admin");
const { page } = visitor;
const session = await visitor.context.newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });
const metrics = async () => Object.fromEntries((await session.send("Performance.getMetrics")).metrics.map(({ name, value }) => [name, value]));
const paints = [];
for (let run = 0; run < 5; run += 1) {
  await visitor.open("/orders");
  await page.waitForSelector("[data-id]");
  paints.push(await page.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1, performance.now()]));
}
const frames = settings.frames;
const before = await metrics();
const reached = await page.evaluate(async (count) => {
  const list = [...document.querySelectorAll("*")].filter((each) => each.scrollHeight > each.clientHeight + 50 && each.querySelector("[data-id]")).sort((a, b) => b.scrollHeight - a.scrollHeight)[0];
  for (let frame = 0; frame < count; frame += 1) {
    list.scrollTop += 300;
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  return { top: list.scrollTop, height: list.scrollHeight, rows: list.querySelectorAll("[data-id]").length };
}, frames);
const after = await metrics();
await browser.close();
const each = (name) => ((after[name] - before[name]) * 1000) / frames;
console.log(JSON.stringify({ paints, reached, script: each("ScriptDuration"), task: each("TaskDuration"), heap: after.JSHeapUsedSize / 1e6 }));
