import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

const FONTS = ["inter", "jetbrains-mono"];
const licenceOf = (font: string) => readFileSync(here(`node_modules/@fontsource-variable/${font}/LICENSE`), "utf8");

export default defineConfig({
  base: "/console/",
  resolve: {
    // The client's sources, so that no build of it can be stale; its one dependency is in our lock.
    alias: { "@openbell/client": here("../clients/typescript/src/index.ts") },
    dedupe: ["openapi-fetch"],
  },
  plugins: [
    {
      name: "licences-of-fonts",
      generateBundle() {
        this.emitFile({ type: "asset", fileName: "licences-of-fonts.md", source: FONTS.map(licenceOf).join("\n\n") });
      },
    },
  ],
  worker: { format: "iife" },
  build: {
    target: "es2022",
    outDir: here("../server/src/openbell_server/transport/console/static"),
    emptyOutDir: true,
    // The policy of the pages allows scripts, styles and fonts from files only, never from data: addresses.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    reportCompressedSize: false,
    // What is shipped is shipped with the texts of its licences.
    license: { fileName: "licences.md" },
  },
});
