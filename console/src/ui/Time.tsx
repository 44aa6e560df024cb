/** UTC first, and how long ago. */
import { signal } from "@preact/signals";
import { ago, clock, full } from "../text/time";

/** The time of this browser, once a second, while the page is visible. */
export const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1000);

export const localTime = (time: string): string => `${new Date(time).toLocaleString()} in your time zone`;

export function Ago({ at }: { at: string }) {
  return <span class="dim">{ago(at, now.value)}</span>;
}

export function Time({ at, day = false }: { at: string; day?: boolean }) {
  return (
    <time dateTime={at} title={`${full(at)}\n${localTime(at)}`} class="nowrap">
      {day ? full(at) : clock(at)} <Ago at={at} />
    </time>
  );
}
