// After the build: what a browser loads is small, and nothing in it needs another policy or another origin.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import test from "node:test";
import { gzipSync } from "node:zlib";

const FOLDER = new URL("../../server/src/openbell_server/transport/console/static/", import.meta.url);
const ASSETS = new URL("assets/", FOLDER);
const names = readdirSync(ASSETS);
const read = (name) => readFileSync(new URL(name, ASSETS));
const kilobytes = (wanted, pack = gzipSync) => wanted.reduce((sum, name) => sum + pack(read(name)).length, 0) / 1000;
const ending = (end) => names.filter((name) => name.endsWith(end));

/** What the page imports before its first screen, followed through static imports, and the first screen itself. */
function before(screen) {
  const page = readFileSync(new URL("index.html", FOLDER), "utf8");
  const wanted = [...page.matchAll(/assets\/([^"]+\.js)/g)].map(([, name]) => name);
  wanted.push(names.find((name) => name.startsWith(`${screen}-`) && name.endsWith(".js")));
  const found = new Set();
  while (wanted.length) {
    const name = wanted.pop();
    if (found.has(name)) continue;
    found.add(name);
    const statics = read(name).toString().matchAll(/(?:from|import)\s*"\.\/([^"]+\.js)"/g);
    wanted.push(...[...statics].map(([, other]) => other));
  }
  return [...found];
}

test("all JavaScript has at most 150 kB gzipped, and that before the blotter 70 kB", () => {
  const [all, first] = [kilobytes(ending(".js")), kilobytes(before("blotter"))];
  assert.ok(all <= 150, `${all} kB in all`);
  assert.ok(first <= 70, `${first} kB before the blotter`);
});

test("the styles have at most 15 kB gzipped, and the fonts 100 kB", () => {
  const fonts = kilobytes(ending(".woff2"), (bytes) => bytes);
  assert.ok(kilobytes(ending(".css")) <= 15);
  assert.ok(fonts <= 100, `${fonts} kB of fonts`);
  assert.equal(ending(".woff2").length, 2);
});

test("the page has no script, no style and no address of its own that the policy forbids", () => {
  const page = readFileSync(new URL("index.html", FOLDER), "utf8");
  assert.doesNotMatch(page, /<script(?![^>]*\ssrc=)|<style|style=|https?:/);
  for (const name of ending(".css")) assert.doesNotMatch(read(name).toString(), /url\((?!["']?\/console\/assets\/)/);
});
