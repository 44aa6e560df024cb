/** Events in this tab. They come from the shared worker, or from a stream of the tab where there are no shared workers. */
import { effect, signal } from "@preact/signals";
import { client, signedOut } from "../api/api";
import { Feed, type Lamp, type Report, type Request, type StreamEvent } from "./feed";
import workerAddress from "./worker?worker&url";

export type { StreamEvent };

export interface Listener {
  /** Events in the order of each account. */
  events: (events: readonly StreamEvent[]) => void;
  /** Events may be missing before this moment: read again. Also called when the stream begins. */
  begun?: () => void;
}

export const lamp = signal<Lamp>("connecting");
/** The number of the last event of each account that came since the page was opened. */
export const positions = signal<ReadonlyMap<string, number>>(new Map());
/** True once the stream has begun: what is read from now on, and the events after it, leave nothing out. */
export const hasBegun = signal(false);

const listeners = new Set<Listener>();

/** Listen until the returned function is called. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function receive(report: Report): void {
  if (report.kind === "lamp") {
    lamp.value = report.lamp;
    if (report.lamp === "signed-out") signedOut.value = true;
  } else if (report.kind === "begun") {
    hasBegun.value = true;
    for (const each of listeners) each.begun?.();
  } else {
    const changed = new Map(positions.peek());
    for (const { account_id, account_seq } of report.events) changed.set(account_id, account_seq);
    positions.value = changed;
    for (const each of listeners) each.events(report.events);
  }
}

interface ScriptPolicies {
  createPolicy(name: string, rules: { createScriptURL: (url: string) => string }): {
    createScriptURL: (url: string) => string;
  };
}

/** The one address of a script that the pages make; under the policy of the pages any other is refused. */
function trustedAddress(): string {
  const { trustedTypes } = globalThis as { trustedTypes?: ScriptPolicies };
  const policy = trustedTypes?.createPolicy("openbell-worker", { createScriptURL: () => workerAddress });
  return policy?.createScriptURL(workerAddress) ?? workerAddress;
}

let signedInAgain: () => void = () => undefined;

export function startLive(): void {
  if (!("SharedWorker" in globalThis) || !navigator.locks) {
    const feed = new Feed(client, receive);
    signedInAgain = () => feed.signedIn();
    void feed.run();
    return;
  }
  const { port } = new SharedWorker(trustedAddress(), { name: "openbell-events" });
  const send = (request: Request) => port.postMessage(request);
  const lock = `openbell-tab-${crypto.randomUUID()}`;
  port.onmessage = ({ data }: MessageEvent<Report>) => receive(data);
  // Held until the tab is gone; then the worker forgets the tab.
  void navigator.locks.request(lock, () => {
    send({ kind: "hello", lock });
    return new Promise(() => undefined);
  });
  signedInAgain = () => send({ kind: "signed-in" });
}

effect(() => {
  if (!signedOut.value) signedInAgain();
});
