/** What several tests make rows from. */
export * from "../src/live/rows";
export type { StreamEvent } from "@openbell/client";
