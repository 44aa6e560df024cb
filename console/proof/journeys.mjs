// Journeys with the keyboard alone. A step that needs a pointer fails.
import { launch, settings, submit, until, Visitor } from "./browser.mjs";

const browser = await launch();
const visitor = await Visitor.enter(browser, "admin");
const { page } = visitor;
const done = [];
const failed = [];
const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
const focused = (test) => page.evaluate((source) => new Function("element", `return (${source})(element)`)(document.activeElement), test.toString());

async function tabTo(test, what) {
  for (let step = 0; step < 200; step += 1) {
    if (await focused(test)) return;
    await press("Tab");
  }
  throw new Error(`no way to ${what} by the Tab key`);
}

async function journey(name, steps) {
  try {
    await steps();
    done.push(name);
  } catch (error) {
    failed.push([name, String(error).slice(0, 400)]);
  }
}

const palette = async (text) => {
  await press("Control+k");
  await page.keyboard.type(text, { delay: 20 });
  await page.waitForTimeout(300);
  await press("Enter");
};

await journey("find and open an order", async () => {
  const { body } = await submit("NVDA", { Limit: { price: "0.5", quantity: "3" } });
  await visitor.open("/orders");
  await page.waitForSelector(`[data-id="${body.intent_id}"]`);
  await press("/");
  await page.keyboard.type("NVDA");
  await page.waitForURL(/symbol=NVDA/);
  await press("Escape", "j", "Enter");
  await page.waitForURL(/intents/);
  await page.goBack();
  await page.waitForURL(/symbol=NVDA/);
  await palette(body.intent_id);
  await page.waitForURL(/intents/);
});

await journey("halt and resume", async () => {
  await palette("halt");
  await page.waitForURL(/halt/);
  await visitor.ready();
});

await browser.close();
console.log(JSON.stringify({ done, failed, changes: visitor.changes }));
