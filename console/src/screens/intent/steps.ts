/** What happened, in steps. Each step names the clock that timed it: Openbell's or the broker's. */
import type { Schemas } from "@openbell/client";
import { grouped, price } from "../../text/decimal";
import { clock, millis } from "../../text/time";
import { capital, count, plain, times } from "../../text/words";
import { reasonText } from "../../live/rows";
import type { Tone } from "./sentence";

export interface Step {
  at: string;
  clock: "openbell" | "broker";
  title: string;
  note?: string;
  tone: Tone;
}

export interface History {
  actions: readonly Schemas["Action"][];
  receipts: readonly Schemas["StoredReceipt"][];
  executions: readonly Schemas["ExecutionRow"][];
  events: readonly Pick<Schemas["Event"], "occurred_at" | "type" | "broker_order" | "intent_action">[];
  unknown: Schemas["Unknown"] | undefined;
}

const NAMES: Record<string, string> = { CREATE: "Order", REPLACE: "Replace", CANCEL: "Cancel" };

const OUTCOMES: Record<string, [string, Tone]> = {
  ACKED: ["The broker took it", "info"],
  REFUSED: ["The broker refused it", "bad"],
  FAILED: ["It failed: the broker never received it", "bad"],
  SKIPPED: ["Not sent", "bad"],
  ABANDONED: ["An operator settled it without knowing the outcome", "bad"],
};

function who({ principal_type, principal_id }: Schemas["Action"]): string {
  return `${plain(principal_type).replace("api key", "API key")} ${principal_id}`;
}

function rulesOf(action: Schemas["Action"], receipts: History["receipts"]): string {
  const receipt = receipts.find((each) => each.seq === action.seq && each.gate === "ACCEPT");
  if (!receipt) return "";
  const judged = receipt.receipt.rules.filter((rule) => rule.missing === undefined).length;
  const missing = receipt.receipt.rules.length - judged;
  return ` · ${count(judged, "rule")} evaluated${missing ? `, ${missing} not judged` : ""}`;
}

function stepsOfAction(action: Schemas["Action"], receipts: History["receipts"]): Step[] {
  const name = NAMES[action.action_type] ?? action.action_type;
  const named = action.action_type === "CREATE" ? "" : `${name}: `;
  const steps: Step[] = [
    {
      at: action.created_at,
      clock: "openbell",
      title: `${name} recorded`,
      note: `by ${who(action)}${rulesOf(action, receipts)}`,
      tone: "info",
    },
  ];
  if (action.dispatched_at) {
    const note = "From here on, a crash cannot send it a second time.";
    steps.push({ at: action.dispatched_at, clock: "openbell", title: `${named}door committed, sent to the broker`, note, tone: "info" });
  }
  const outcome = OUTCOMES[action.status];
  if (action.settled_at && outcome) {
    const [title, tone] = outcome;
    steps.push({ at: action.settled_at, clock: "openbell", title: named + title, note: reasonText(action.reason), tone });
  }
  return steps.map((step) => ({ ...step, title: capital(step.title) }));
}

const KINDS: Record<string, string> = { BUST: "Execution busted by the broker", CORRECTION: "Execution corrected by the broker" };

function stepOfExecution(execution: Schemas["ExecutionRow"]): Step {
  const { kind, quantity, price: at, executed_at, recorded_at, execution_id } = execution;
  const kindTitle = KINDS[kind];
  const title = kindTitle ?? `${grouped(quantity)} filled at ${price(at)}`;
  const values = kindTitle && kind !== "BUST" ? ` · now ${grouped(quantity)} at ${price(at)}` : "";
  return {
    at: executed_at,
    clock: "broker",
    title,
    note: `execution ${execution_id}${values} · Openbell recorded it at ${clock(recorded_at)}`,
    tone: kind === "NORMAL" ? "good" : "bad",
  };
}

const ENDS: Record<string, string> = {
  CANCELED: "The order ended: canceled",
  EXPIRED: "The order ended: expired",
  RECONCILED_OUT: "The order ended, as a reconciliation found",
};

function stepsOfEvents(events: History["events"]): Step[] {
  const steps: Step[] = [];
  for (const { occurred_at: at, broker_order, intent_action } of events) {
    if (broker_order) {
      const title = ENDS[broker_order.status];
      const last = steps.at(-1);
      if (title && last?.title !== title) steps.push({ at, clock: "openbell", title, tone: "plain" });
      for (const notice of broker_order.notices ?? []) {
        steps.push({ at, clock: "openbell", title: `Notice: ${plain(notice)}`, note: notice, tone: "bad" });
      }
    }
    if (intent_action?.status === "UNKNOWN") steps.push(stepOfDoubt(at, intent_action));
  }
  return steps;
}

function stepOfDoubt(at: string, { reason, unknown }: Schemas["IntentAction"]): Step {
  const titles: Record<string, string> = {
    WRITTEN_AGAIN: "Sent again under the same id, after proof that it had not arrived",
    NEEDS_ATTENTION: "Flagged: a person should look",
  };
  const title = titles[reason?.code ?? ""] ?? "No answer that shows the outcome: it is unknown";
  const note = unknown ? `may have been sent ${times(unknown.writes)}` : reasonText(reason);
  return { at, clock: "openbell", title, note, tone: "unknown" };
}

function stepsOfProbes(unknown: Schemas["Unknown"] | undefined): Step[] {
  return (unknown?.probes ?? []).map(({ at, found }) => ({
    at,
    clock: "openbell",
    title: found ? "Look-up at the broker: found" : "Look-up at the broker: not found",
    tone: found ? "good" : "unknown",
  }));
}

/** By time; steps of the broker's clock are marked as such, because the two clocks can differ. */
export function timelineOf({ actions, receipts, executions, events, unknown }: History): Step[] {
  const steps = [
    ...actions.flatMap((action) => stepsOfAction(action, receipts)),
    ...executions.map(stepOfExecution),
    ...stepsOfEvents(events),
    ...stepsOfProbes(unknown),
  ];
  return steps
    .map((step, place) => ({ step, place }))
    .sort((a, b) => compareTimes(a.step.at, b.step.at) || a.place - b.place)
    .map(({ step }) => step);
}

/** Exact to the microsecond, which a Date is not. */
function compareTimes(a: string, b: string): number {
  const difference = millis(a) - millis(b);
  if (difference) return difference;
  const digits = (time: string) => (/\.(\d+)/.exec(time)?.[1] ?? "").padEnd(9, "0");
  return digits(a) < digits(b) ? -1 : digits(a) > digits(b) ? 1 : 0;
}
