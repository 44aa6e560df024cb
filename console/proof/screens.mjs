// Every screen in two themes and two widths: pictures, accessibility, the policy, other origins, tokens.
import fs from "node:fs";
import path from "node:path";
import { createRequire } from "node:module";
import { control, launch, settings, TOKEN, Visitor } from "./browser.mjs";

const AXE = fs.readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
const found = { screens: 0, pictures: 0, accessibility: [], policy: [], errors: [], elsewhere: [], tokens: [], storage: [], reflow: [] };

async function look(visitor, screen, name) {
  await visitor.open(screen.path);
  await visitor.page.waitForTimeout(settings.settle ?? 800);
  await visitor.page.screenshot({ path: path.join(settings.artifacts, `${name}.png`) });
  found.pictures += 1;
  // In an isolated world: the policy of the page allows no foreign script in its own.
  const session = await visitor.context.newCDPSession(visitor.page);
  const { frameTree } = await session.send("Page.getFrameTree");
  const { executionContextId } = await session.send("Page.createIsolatedWorld", { frameId: frameTree.frame.id });
  await session.send("Runtime.evaluate", { expression: AXE, contextId: executionContextId });
  const run = `axe.run(document, { runOnly: ${JSON.stringify(RULES)} }).then((r) => JSON.stringify(r.violations.map((v) => [v.id, v.nodes.length, v.nodes[0].html.slice(0, 160), v.nodes[0].failureSummary?.slice(0, 200)])))`;
  const { result, exceptionDetails } = await session.send("Runtime.evaluate", { expression: run, contextId: executionContextId, awaitPromise: true, returnByValue: true });
  if (exceptionDetails) throw new Error(`axe did not run: ${JSON.stringify(exceptionDetails).slice(0, 300)}`);
  for (const each of JSON.parse(result.value)) found.accessibility.push([name, ...each]);
  await session.detach();
  const wider = await visitor.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wider > 0) found.reflow.push([name, wider]);
  const stored = await visitor.page.evaluate(() => document.cookie + JSON.stringify(localStorage) + JSON.stringify(sessionStorage) + document.documentElement.outerHTML);
  if (TOKEN.test(stored) || /__Host-/.test(stored)) found.storage.push(name);
}

const browser = await launch();
if (settings.down) await control("down");
fs.mkdirSync(settings.artifacts, { recursive: true });
for (const theme of settings.themes) {
  for (const size of settings.sizes) {
    const visitor = await Visitor.enter(browser, settings.role, { theme, size });
    for (const screen of settings.screens) await look(visitor, screen, `${settings.prefix ?? ""}${screen.name}-${size}-${theme}`);
    if (settings.blotter) {
      const session = await visitor.context.newCDPSession(visitor.page);
      await session.send("Emulation.setEmulatedVisionDeficiency", { type: "deuteranopia" });
      await visitor.open("/orders");
      await visitor.page.screenshot({ path: path.join(settings.artifacts, `deuteranopia-${size}-${theme}.png`) });
      found.pictures += 1;
    }
    found.policy.push(...visitor.violations);
    found.errors.push(...visitor.errors);
    found.elsewhere.push(...visitor.elsewhere);
    found.tokens.push(...visitor.bodies);
    await visitor.context.close();
  }
}
if (settings.down) await control("up");
found.screens = settings.screens.length;
await browser.close();
console.log(JSON.stringify(found));
