import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";
import { gzipSync } from "node:zlib";

test("the whole client has at most 12 kB, minified and gzipped", () => {
  const bytes = gzipSync(readFileSync(new URL("../dist/bundle.js", import.meta.url))).length;
  assert.ok(bytes <= 12_288, `${bytes} bytes`);
});
