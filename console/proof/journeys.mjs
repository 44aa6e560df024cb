// Journeys with the keyboard alone. A step that needs a pointer fails.
import { launch, settings, submit, until, Visitor } from "./browser.mjs";

const browser = await launch();
const begun = Date.now();
const visitor = await Visitor.enter(browser, "admin");
const { page } = visitor;
const done = [];
// What each of the three looks for: the reason of a refusal, what is stopped, what is in doubt.
await page.waitForFunction(() => {
  const text = document.querySelector("main")?.innerText ?? "";
  return /QTY_MAX/.test(text) && /Halted/.test(text) && /in doubt/.test(text);
});
const seconds = (Date.now() - begun) / 1000;
const failed = [];
const press = async (...keys) => { for (const key of keys) await page.keyboard.press(key); };
const focused = (test) => page.evaluate((source) => new Function("element", `return (${source})(element)`)(document.activeElement), String(test));

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

const reached = (address) => until(() => address.test(page.url()), `the address ${address}, not ${page.url()}`);
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
  await press("Enter");
  await reached(/symbol=NVDA/);
  await page.waitForFunction(() => {
    const rows = [...document.querySelectorAll("[data-id]")];
    return rows.length && rows.every((row) => row.textContent.includes("NVDA"));
  });
  await press("Escape");
  // The server's answer to the filter replaces the list, and with it the row that the keys had reached.
  await until(async () => {
    await press("j", "Enter");
    return /intents/.test(page.url());
  }, "Enter opens the row");
  await page.goBack();
  await reached(/symbol=NVDA/);
  await palette(body.intent_id);
  await reached(/intents/);
});

const labelled = (text) => `(element) => [...(element.labels ?? [])].some((label) => new RegExp(${JSON.stringify(text)}, "i").test(label.textContent))`;
const button = (text) => `(element) => element.matches("button") && new RegExp(${JSON.stringify(text)}, "i").test(element.textContent)`;

await journey("halt and resume", async () => {
  await palette("halt");
  await reached(/halt/);
  await visitor.open(`/halt?scope=account&account=${settings.account}`);
  await tabTo(button("^Halt "), "the button that halts");
  await press("Enter");
  await page.waitForSelector('form[data-status="HALTED"]');
  await page.getByText("No order works on this account").first().waitFor();
  await tabTo(labelled("safe now"), "the reason");
  await page.keyboard.type("checked by hand");
  await press("Tab");
  await page.keyboard.type(settings.name);
  await press("Enter");
  await page.waitForSelector('form[data-status="ACTIVE"]');
});

await journey("change a rule", async () => {
  await palette("controls");
  await reached(/controls/);
  await visitor.open(`/controls?scope=account&account=${settings.account}&rule=QTY_MAX`);
  await tabTo(labelled("^quantity"), "the quantity");
  await press("Control+a");
  await page.keyboard.type("250");
  await press("Enter");
  await page.getByText(/would have refused|would refuse|refused/i).first().waitFor();
  await tabTo(labelled("^Why"), "the reason");
  await page.keyboard.type("larger sizes");
  await press("Enter");
  await page.getByText(/is saved and in force/).waitFor();
});

await journey("every change is in the audit log, with the person", async () => {
  await visitor.open("/audit");
  const entries = await page.evaluate(async () => (await (await fetch("/v1/audit?order=desc&limit=100", { headers: { "x-openbell-console": "1" } })).json()).data);
  const byUser = entries.filter(({ principal_type }) => principal_type === "USER");
  const changes = visitor.changes.filter((each) => !/evaluate|backtest|logout/.test(each));
  if (!changes.length || byUser.length < changes.length) throw new Error(`${changes.length} changes, ${byUser.length} entries: ${changes}`);
});

await browser.close();
console.log(JSON.stringify({ seconds, done, failed, changes: visitor.changes }));
