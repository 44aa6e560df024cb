/** What a halt report proves, step by step. */
import type { Schemas } from "@openbell/client";
import { clock } from "../../text/time";
import { capital, count } from "../../text/words";

export type HaltReport = Schemas["HaltReport"];
/** UNKNOWN is never shown like DONE: it is not known, and the report has the reason. */
export type CheckState = "DONE" | "WAITING" | "WRONG" | "UNKNOWN" | "NONE";

export interface Check {
  title: string;
  detail: string;
  state: CheckState;
}

/** Whether the halt stops every order of the account, so that a proof for the whole account is possible. */
export const isOfWholeAccount = ({ scope, status }: HaltReport): boolean =>
  status === "HALTED" && scope !== "SYMBOL" && scope !== "KEY";

function doors({ doors_opened_after: opened, reducing_doors_after: reducing, status }: HaltReport): Check {
  const title = "No door opened since";
  const also = reducing ? `; ${count(reducing, "command")} that only reduce were sent` : "";
  if (opened === null) {
    const detail = `${status === "REDUCE_ONLY" ? "Reduce only lets orders that reduce pass" : "Not counted"}${also}`;
    return { title, detail, state: "NONE" };
  }
  return { title, detail: `${count(opened, "command")} sent that it forbids${also}`, state: opened ? "WRONG" : "DONE" };
}

function inFlight(report: HaltReport): Check {
  const unsettled = report.in_flight_commands.filter(({ settled_at }) => settled_at === null).length;
  const title = "What was in flight has an outcome";
  if (!report.in_flight) return { title, detail: "Nothing was past its door without an outcome", state: "DONE" };
  const detail = `${report.in_flight - unsettled} of ${report.in_flight} settled`;
  return { title, detail, state: unsettled ? "WAITING" : "DONE" };
}

function cancels(report: HaltReport): Check {
  const { asked, confirmed, ended_otherwise, waiting } = report.cancels;
  const title = "Working orders are cancelled";
  if (!report.cancel_working) return { title, detail: "Not asked for: working orders stay", state: "NONE" };
  if (report.noticed_at === null && !asked) {
    const isOver = report.until !== null;
    return {
      title,
      detail: isOver ? "The halt ended before its cancels began" : "The executor begins",
      state: isOver ? "UNKNOWN" : "WAITING",
    };
  }
  const other = ended_otherwise ? `, ${ended_otherwise} filled or ended otherwise` : "";
  const open = isOfWholeAccount(report) ? (report.account?.open_orders ?? 0) : 0;
  const detail = asked ? `${confirmed} of ${asked} confirmed by the broker${other}` : "There were none";
  if (waiting && report.until !== null) return { title, detail, state: "UNKNOWN" };
  return { title, detail, state: waiting || open ? "WAITING" : "DONE" };
}

function brokersList(report: HaltReport): Check {
  const title = "The broker's own list shows none";
  const { no_working_orders, why, compared_at, account, until } = report;
  const read = compared_at ? `Its list was read at ${clock(compared_at)} UTC` : "";
  if (until !== null) {
    if (compared_at) return { title: "The broker's own list was read", detail: `${read}, after our last order`, state: "DONE" };
    return { title, detail: why ?? "The halt ended before its list was read", state: "UNKNOWN" };
  }
  if (no_working_orders === true) return { title, detail: read || "Its list shows none", state: "DONE" };
  if (no_working_orders === null) return { title, detail: `Not known: ${why ?? "no reason is given"}`, state: "UNKNOWN" };
  const external = account?.external_open_orders ?? 0;
  const detail = external ? `${count(external, "order")} there that Openbell did not send` : (why ?? "Orders are open");
  return { title, detail, state: "WAITING" };
}

/** The six steps from the switch to the broker's word. */
export function checksOf(report: HaltReport): Check[] {
  const { version, since, skipped, queued, until } = report;
  return [
    { title: "The halt is committed", detail: `Version ${version}, at ${clock(since)} UTC`, state: "DONE" },
    doors(report),
    {
      title: "The queue is skipped",
      detail: `${skipped} skipped${queued ? `, ${queued} still queued` : ", none queued"}`,
      state: queued ? (until === null ? "WAITING" : "UNKNOWN") : "DONE",
    },
    inFlight(report),
    cancels(report),
    brokersList(report),
  ];
}

/** Whether the report still fills in, so that it must be read again. */
export function isRunning(report: HaltReport): boolean {
  if (report.until !== null) return false;
  if (isOfWholeAccount(report) && report.no_working_orders !== true) return true;
  return checksOf(report).some(({ state }, at) => state === "WAITING" && at < 5);
}

const sentence = (text: string): string => `${capital(text).replace(/\.$/, "")}.`;

/** The result in one sentence. */
export function verdict(report: HaltReport): { text: string; isProven: boolean } {
  if (report.until !== null) return { text: sentence(report.why ?? "The halt has ended"), isProven: false };
  if (report.no_working_orders === true) {
    const at = report.account ? `, as of ${clock(report.account.as_of)} UTC` : "";
    return { text: `No order works on this account, by the broker's own list${at}.`, isProven: true };
  }
  return { text: sentence(report.why ?? "It is not known yet whether an order works"), isProven: false };
}

const OUTCOMES: Record<CheckState, string> = {
  DONE: "done",
  WAITING: "waiting",
  WRONG: "failed",
  UNKNOWN: "not known",
  NONE: "does not apply",
};
export const outcomeWord = (state: CheckState): string => OUTCOMES[state];

/** How many of the steps that apply are done. */
export function progress(checks: readonly Check[]): { done: number; of: number } {
  const applying = checks.filter(({ state }) => state !== "NONE");
  return { done: applying.filter(({ state }) => state === "DONE").length, of: applying.length };
}
