import { readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));
const tests = readdirSync(here("test")).filter((name) => name.endsWith(".test.ts"));

/** Compiles the unit tests, so that they run in Node without a browser. */
export default defineConfig({
  resolve: {
    alias: { "@openbell/client": here("../clients/typescript/src/index.ts") },
    dedupe: ["openapi-fetch"],
  },
  ssr: { noExternal: true },
  build: {
    ssr: true,
    target: "es2022",
    outDir: here("dist"),
    emptyOutDir: true,
    rollupOptions: {
      input: Object.fromEntries(tests.map((name) => [name.replace(/\.ts$/, ""), here(`test/${name}`)])),
      output: { entryFileNames: "[name].mjs" },
    },
  },
});
