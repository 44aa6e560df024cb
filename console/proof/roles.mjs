// What is enabled for each role, held against what GET /v1/me says the role may do.
import { launch, settings, Visitor } from "./browser.mjs";

const browser = await launch();
const found = { compared: 0, wrong: [], operations: {}, unexplained: [] };
for (const role of settings.roles) {
  const visitor = await Visitor.enter(browser, role);
  await visitor.open(settings.screens[0].path);
  const me = await visitor.page.evaluate(async () => (await fetch("/v1/me", { headers: { "x-openbell-console": "1" } })).json());
  const may = new Set(me.operations);
  for (const screen of settings.screens) {
    await visitor.open(screen.path);
    await visitor.page.waitForTimeout(500);
    const elements = await visitor.page.$$eval("[data-operation]", (all) =>
      all.map((each) => {
        const fields = each.matches("form, fieldset, section, div") ? [...each.querySelectorAll("button, input, select, textarea")] : [each];
        const refused = fields.length > 0 && fields.every((field) => field.matches(":disabled") || field.getAttribute("aria-disabled") === "true");
        return [each.dataset.operation, refused, (each.textContent ?? "").trim().slice(0, 60), each.dataset.disabledFor ?? ""];
      }),
    );
    for (const [operation, refused, text] of elements) {
      found.compared += 1;
      (found.operations[operation] ??= {})[role] = may.has(operation);
      // What may be done can be disabled for another reason, such as an empty form; what may not be done is always disabled.
      if (!may.has(operation) && !refused) found.wrong.push([role, screen.name, operation, text]);
    }
    const refusedSomething = elements.some(([operation]) => !may.has(operation));
    const says = await visitor.page.$eval("main", (main) => /needs|only|admin|member|role/i.test(main.innerText));
    if (refusedSomething && !says) found.unexplained.push([role, screen.name]);
  }
  await visitor.context.close();
}
await browser.close();
console.log(JSON.stringify(found));
