/** Times as the API writes them (RFC 3339, UTC), and how the pages show them. */

/** "14:30:05.120" of an RFC 3339 time; the API writes UTC. */
export function clock(time: string): string {
  const found = /T(\d\d:\d\d:\d\d)(?:\.(\d{1,3}))?/.exec(time);
  return found ? `${found[1]}.${(found[2] ?? "").padEnd(3, "0")}` : time;
}

export const day = (time: string): string => time.slice(0, 10);

/** "2026-11-15 14:30:05 UTC". */
export const full = (time: string): string => `${day(time)} ${clock(time)} UTC`;

export const millis = (time: string): number => Date.parse(time);

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** "now", "42 s", "3 min", "2 h 5 min", "4 d". */
export function ago(time: string, now: number): string {
  return span(Math.max(0, Math.floor((now - millis(time)) / 1000)));
}

/** Seconds in words, in at most two units. */
export function span(seconds: number): string {
  if (seconds < 1) return "now";
  if (seconds < MINUTE) return `${seconds} s`;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) {
    const minutes = Math.floor((seconds % HOUR) / MINUTE);
    return `${Math.floor(seconds / HOUR)} h${minutes ? ` ${minutes} min` : ""}`;
  }
  return `${Math.floor(seconds / DAY)} d`;
}

/** "296 ms", "1.20 s", "12.5 s", "3 min 4 s": the time between two times. */
export function between(milliseconds: number): string {
  const value = Math.max(0, milliseconds);
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60_000) return `${(value / 1000).toFixed(value < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(value / 1000);
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min ${seconds % MINUTE} s`;
  return span(seconds);
}

/** The time in a UUID of version 7, to the millisecond; ids of intents and receipts are such. */
export function timeOfId(id: string): string {
  const milliseconds = Number.parseInt(id.replaceAll("-", "").slice(0, 12), 16);
  return Number.isFinite(milliseconds) ? new Date(milliseconds).toISOString() : "";
}
