/** The address of the page. Screens and filters are in it, so that every view can be sent to somebody. */
import { computed, signal } from "@preact/signals";

const BASE = "/console";
const here = signal(location.pathname + location.search);
addEventListener("popstate", () => {
  here.value = location.pathname + location.search;
});

/** Without the base: "/orders". */
export const path = computed(() => (here.value.split("?")[0] ?? "").slice(BASE.length).replace(/\/$/, "") || "/");
export const query = computed(() => new URLSearchParams(here.value.split("?")[1] ?? ""));

/** The address of a screen, "/orders?symbol=AAPL", as a link needs it. */
export const href = (to: string): string => BASE + to;

export function go(to: string, { replace = false } = {}): void {
  history[replace ? "replaceState" : "pushState"](null, "", href(to));
  here.value = location.pathname + location.search;
  if (!replace) document.getElementById("main")?.scrollTo(0, 0);
}

/** Change filters in the address, without a new entry in the history; empty removes one. */
export function setQuery(changes: Record<string, string | undefined>): void {
  const changed = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value) changed.set(name, value);
    else changed.delete(name);
  }
  const text = changed.toString();
  go(path.value + (text ? `?${text}` : ""), { replace: true });
}

const SERVED_BY_THE_SERVER = /^\/console\/(login|logout|callback|session|assets)\b/;

/** Follow links of the console without loading the page again. */
export function onLink(event: MouseEvent): void {
  const link = (event.target as Element).closest?.("a");
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.button !== 0 || event.defaultPrevented) return;
  if (!link.pathname.startsWith(`${BASE}/`) || SERVED_BY_THE_SERVER.test(link.pathname)) return;
  event.preventDefault();
  go(link.pathname.slice(BASE.length) + link.search);
}

/** The parameters of "/accounts/{id}" in a path, or undefined if the path is another. */
export function match(pattern: string, of: string): Record<string, string> | undefined {
  const names: string[] = [];
  const source = pattern.replace(/\{(\w+)\}/g, (_, name: string) => {
    names.push(name);
    return "([^/]+)";
  });
  const found = new RegExp(`^${source}$`).exec(of);
  if (!found) return undefined;
  return Object.fromEntries(names.map((name, at) => [name, decodeURIComponent(found[at + 1] ?? "")]));
}
