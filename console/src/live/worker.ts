/** The shared worker: one event stream for all tabs of this browser. */
import { Client } from "@openbell/client";
import { Feed, type Report, type Request } from "./feed";

const tabs = new Set<MessagePort>();
const headers = { "x-openbell-console": "1" };
const feed = new Feed(new Client({ baseUrl: self.location.origin, headers }), (report) => {
  for (const tab of tabs) tab.postMessage(report);
});
const send = (tab: MessagePort, report: Report) => tab.postMessage(report);
let isRunning = false;

self.addEventListener("connect", (event) => {
  const [tab] = (event as MessageEvent).ports;
  if (!tab) return;
  tab.onmessage = ({ data }: MessageEvent<Request>) => {
    if (data.kind === "signed-in") feed.signedIn();
    else add(tab, data.lock);
  };
});

function add(tab: MessagePort, lock: string): void {
  tabs.add(tab);
  // The tab holds this lock as long as it lives.
  void navigator.locks.request(lock, () => {
    tabs.delete(tab);
    tab.close();
  });
  send(tab, { kind: "lamp", lamp: feed.lamp });
  if (feed.hasBegun) send(tab, { kind: "begun" });
  if (isRunning) return;
  isRunning = true;
  void feed.run();
}
