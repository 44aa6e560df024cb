import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import test from "node:test";

const path = (relative) => fileURLToPath(new URL(relative, import.meta.url));

test("the types fit every snippet of the documentation", () => {
  const page = readFileSync(path("../../../docs/typescript.md"), "utf8");
  const snippets = [...page.matchAll(/^```ts\n(.*?)^```$/gms)].map(([, text]) => text);
  assert.ok(snippets.length >= 5);
  // Inside the package, so that its own name is found.
  const folder = path("../dist/snippets");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  writeFileSync(`${folder}/node.d.ts`, "declare const process: { env: Record<string, string | undefined> };\n");
  for (const [number, text] of snippets.entries()) writeFileSync(`${folder}/${number}.ts`, text);
  const settings = {
    extends: "../../tsconfig.json",
    compilerOptions: { noEmit: true, rootDir: "." },
    include: ["."],
    exclude: [],
  };
  writeFileSync(`${folder}/tsconfig.json`, JSON.stringify(settings));
  const { status, stdout } = spawnSync(process.execPath, [path("../node_modules/typescript/bin/tsc"), "-p", folder]);
  assert.equal(status, 0, `${stdout}`);
});
