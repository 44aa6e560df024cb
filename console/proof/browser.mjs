// Debian's Chromium, and what a page does in it: rows that appear, events that arrive, requests, errors.
import { chromium } from "playwright-core";

export const settings = JSON.parse(process.env.CONSOLE_PROOF ?? "{}");
export const SECONDS = 1000;
export const PATIENCE = 60 * SECONDS;
// A JSON Web Token.
export const TOKEN = /eyJ[\w-]{10,}\.[\w-]{10,}\./;
const SIZES = { wide: { width: 1440, height: 900 }, phone: { width: 390, height: 844 } };

export async function launch() {
  return chromium.launch({ executablePath: settings.chromium, args: ["--no-sandbox", "--disable-gpu"] });
}

// Runs in the page before its own scripts.
function record() {
  const seen = (window.__seen = { rows: {}, events: [], });
  const note = (value) => {
    if (Array.isArray(value)) value.forEach(note);
    else if (value && typeof value === "object") {
      if ("account_seq" in value && "account_id" in value) seen.events.push([value.account_id, value.account_seq, performance.timeOrigin + performance.now()]);
      else Object.values(value).forEach(note);
    }
  };
  const Plain = window.SharedWorker;
  window.SharedWorker = class extends Plain {
    constructor(...given) {
      super(...given);
      this.port.addEventListener("message", ({ data }) => {
        if (data?.kind === "begun") seen.events.push(["begun"]);
        note(data);
      });
    }
  };
  const look = () => {
    const now = performance.timeOrigin + performance.now();
    for (const row of document.querySelectorAll("[data-id]")) seen.rows[row.dataset.id] ??= now;
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, attributes: true, attributeFilter: ["data-id"] });
}

export class Visitor {
  static async enter(browser, role, { theme = "dark", size = "wide" } = {}) {
    const context = await browser.newContext({ viewport: SIZES[size], colorScheme: theme, reducedMotion: "reduce" });
    await context.addInitScript(record);
    const visitor = new Visitor(context, role);
    context.on("request", (request) => visitor.#requested(request));
    context.on("response", (response) => visitor.#answered(response));
    visitor.page = await context.newPage();
    visitor.page.setDefaultTimeout(PATIENCE);
    visitor.page.on("console", (message) => message.type() === "error" && visitor.errors.push(message.text()));
    visitor.page.on("pageerror", (error) => visitor.errors.push(String(error)));
    await visitor.signIn();
    return visitor;
  }

  constructor(context, role) {
    Object.assign(this, { context, role, errors: [], elsewhere: [], changes: [], bodies: [] });
  }

  async signIn() {
    await this.page.goto(settings.login);
    await this.page.getByRole("link", { name: this.role }).click();
    await this.page.waitForURL(`${settings.url}/console/**`);
    this.signedIn = true;
  }

  // In the dialog that lies over the page after the session has ended; the page stays.
  async signInAgain() {
    const [opened] = await Promise.all([this.context.waitForEvent("page"), this.page.getByRole("dialog").getByRole("link", { name: "Sign in" }).click()]);
    await opened.getByRole("link", { name: this.role }).click();
    await this.page.getByRole("dialog").waitFor({ state: "detached" });
  }

  async open(path) {
    await this.page.goto(`${settings.url}/console${path}`);
    await this.ready();
  }

  // Nothing is being read any more, and something is drawn.
  async ready() {
    await this.page.waitForFunction(() => {
      const main = document.querySelector("main");
      return main && main.innerText.trim() && !main.querySelector(".spinner, [aria-busy='true']");
    });
  }

  seen() {
    return this.page.evaluate(() => window.__seen);
  }

  // Of what the browser complained about, what concerns the policy of the page.
  get violations() {
    return this.errors.filter((text) => /Content Security|Trusted Type|Refused to/i.test(text));
  }

  #requested(request) {
    if (this.signedIn && !request.url().startsWith(settings.url) && !/^(data|blob):/.test(request.url())) this.elsewhere.push(request.url());
    if (!["GET", "HEAD"].includes(request.method())) this.changes.push(`${request.method()} ${new URL(request.url()).pathname}`);
  }

  async #answered(response) {
    if (!response.url().startsWith(settings.url)) return;
    const headers = JSON.stringify(await response.allHeaders().catch(() => ({})));
    const isStream = headers.includes("text/event-stream");
    const body = isStream ? "" : await response.text().catch(() => "");
    if (TOKEN.test(headers + body)) this.bodies.push(response.url());
  }
}

// Of the proxy between the console and the api.
export const control = async (what) => (await fetch(`${settings.proxy}/_proxy/${what}`)).json();

export async function until(ask, what) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    const found = await ask();
    if (found) return found;
    if (Date.now() > end) throw new Error(`not within ${PATIENCE / SECONDS} s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

// A command of the application's API key, straight to the api.
export async function submit(symbol, spec, account = settings.account) {
  const answer = await fetch(`${settings.api}/v1/accounts/${account}/intents`, {
    method: "POST",
    headers: { "x-api-key": settings.key, "idempotency-key": crypto.randomUUID(), "content-type": "application/json" },
    body: JSON.stringify({ command: { type: "CREATE", payload: { symbol, order_side: "BUY", spec } } }),
  });
  return { status: answer.status, body: await answer.json(), at: Date.now() };
}

export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}
