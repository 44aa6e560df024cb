import { fileURLToPath } from "node:url";
import { defineConfig } from "vite";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  base: "/console/",
  resolve: {
    // The client's sources, so that no build of it can be stale; its one dependency is in our lock.
    alias: { "@openbell/client": here("../clients/typescript/src/index.ts") },
    dedupe: ["openapi-fetch"],
  },
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
  },
});
