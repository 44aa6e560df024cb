/** What became of an intent, in one or two sentences. It says only what the data shows. */
import type { Schemas } from "@openbell/client";
import { grouped, isZero, price } from "../../text/decimal";
import { capital, count, plain, times } from "../../text/words";

export type Tone = "good" | "bad" | "info" | "unknown" | "plain";
export interface Sentence {
  tone: Tone;
  text: string;
}

type Execution = Schemas["Execution"];
type Action = Schemas["Action"];

export interface Subject {
  execution: Execution;
  quantity: string;
  /** The actions of the intent, the oldest first. */
  actions: readonly Pick<Action, "action_type" | "status" | "reason" | "dispatched_at">[];
}

function ofOrder({ broker_order_ids }: Execution): string {
  return broker_order_ids.length ? ` as the broker's order ${broker_order_ids.join(", ")}` : "";
}

function filledPart({ filled_quantity, average_price }: Execution, quantity: string): string {
  if (isZero(filled_quantity)) return "nothing was filled";
  const average = average_price ? ` at an average of ${price(average_price)}` : "";
  return `${grouped(filled_quantity)} of ${grouped(quantity)} filled${average}`;
}

const WHY_SKIPPED: Record<string, string> = {
  SUPERSEDED: "a cancel came before it was sent",
  NOTHING_SENT: "its order had not been sent",
  ORDER_TERMINAL: "its order had ended",
  QUANTITY_NOT_ABOVE_FILLED: "its order had filled that far already",
  ACCOUNT_NOT_READY: "the account had no valid credential",
};

function brokerText(reason: Schemas["Reason"] | undefined): string {
  const text = reason?.broker_text ?? reason?.broker_code;
  return text ? `: “${text}”` : "";
}

function ofUnknown({ execution, actions }: Subject): string {
  const type = actions.find((each) => each.status === "UNKNOWN")?.action_type ?? "CREATE";
  const may =
    type === "CREATE" ? "It may or may not have this order." : `It may or may not have taken the ${type.toLowerCase()}.`;
  const parts = [`The broker's answer to the ${type} is not known. ${may}`];
  const { unknown } = execution;
  if (!unknown) return parts.join(" ");
  if (unknown.writes > 0) parts.push(`The command may have been sent ${times(unknown.writes)}.`);
  const found = unknown.probes.filter((probe) => probe.found).length;
  if (!unknown.probes.length) parts.push("No look-up at the broker was made yet.");
  else if (found) parts.push(`${count(found, "look-up")} of ${unknown.probes.length} showed it.`);
  else parts.push(`${capital(count(unknown.probes.length, "look-up"))} did not show it.`);
  return parts.join(" ");
}

function ofPendingNew({ actions }: Subject): Sentence {
  const create = actions[0];
  if (create?.status === "QUEUED") return { tone: "info", text: "Recorded. It was not sent to the broker yet." };
  return { tone: "info", text: "It is being sent to the broker, which did not answer yet." };
}

function ofFailed(reason: Schemas["Reason"] | undefined): Sentence {
  const code = reason?.code;
  if (code === "SETTLED_BY_OPERATOR") {
    return { tone: "bad", text: "An operator settled it: the broker never received the order." };
  }
  if (code === "NOT_SENT") return { tone: "bad", text: "It failed before it was sent. The broker never received it." };
  return { tone: "bad", text: `There is proof that the broker never received it${code ? ` (${code})` : ""}.` };
}

function ofSkipped(reason: Schemas["Reason"] | undefined): Sentence {
  const code = reason?.code ?? "";
  const why = WHY_SKIPPED[code] ?? (code && `${code} refused it before it was sent`);
  return { tone: "bad", text: `It never reached the broker${why ? `: ${why}` : ""}.` };
}

function ofEnd(subject: Subject, word: string): Sentence {
  return { tone: "plain", text: `${word}; ${filledPart(subject.execution, subject.quantity)}.` };
}

function ofOpen({ execution, quantity }: Subject): Sentence {
  const { status, leaves_quantity } = execution;
  const open = `${grouped(leaves_quantity)} ${status === "NEW" || status === "PARTIALLY_FILLED" ? "are open" : "can still fill"}`;
  if (status === "PENDING_CANCEL" || status === "PENDING_REPLACE") {
    const what = status === "PENDING_CANCEL" ? "cancel" : "replace";
    return {
      tone: "info",
      text: `A ${what} was sent, and the broker did not confirm it yet; ${filledPart(execution, quantity)}, ${open}.`,
    };
  }
  return { tone: "info", text: `It works at the broker${ofOrder(execution)}: ${filledPart(execution, quantity)}, ${open}.` };
}

export function sentenceOf(subject: Subject): Sentence {
  const { execution, quantity, actions } = subject;
  const create = actions[0];
  if (execution.certainty === "UNKNOWN" || execution.status === "UNKNOWN") {
    return { tone: "unknown", text: ofUnknown(subject) };
  }
  switch (execution.status) {
    case "PENDING_NEW":
      return ofPendingNew(subject);
    case "FILLED":
      return { tone: "good", text: `Filled completely: ${filledPart(execution, quantity)}${ofOrder(execution)}.` };
    case "CANCELED":
      return ofEnd(subject, "Canceled");
    case "EXPIRED":
      return ofEnd(subject, "The broker expired it");
    case "REJECTED":
      return { tone: "bad", text: `The broker refused it${brokerText(create?.reason)}. ${capital(filledPart(execution, quantity))}.` };
    case "SKIPPED":
      return ofSkipped(create?.reason);
    case "FAILED":
      return ofFailed(create?.reason);
    case "RECONCILED_OUT":
      return ofEnd(subject, create?.status === "ABANDONED" ? "An operator closed it without knowing its outcome" : "A reconciliation found that it ended");
    case "NEW":
    case "PARTIALLY_FILLED":
    case "PENDING_CANCEL":
    case "PENDING_REPLACE":
      return ofOpen(subject);
    default:
      return { tone: "plain", text: `${capital(plain(execution.status))}; ${filledPart(execution, quantity)}.` };
  }
}

/** Why a command was refused when it was submitted. */
export function refusalSentence(receipt: Schemas["Receipt"]): Sentence {
  const refused = receipt.rules.filter((rule) => rule.verdict === "REFUSED");
  const codes = [...new Set(refused.map((rule) => rule.code))].join(", ");
  const pass = refused.map((rule) => rule.would_pass).filter(Boolean);
  const by = codes || "A rule";
  const isAtDoor = receipt.gate === "DOOR";
  const what = isAtDoor ? `It was recorded; ${by} refused it before it was sent` : `${by} refused it when it was submitted`;
  const nothing = isAtDoor ? "Nothing was sent." : "Nothing was recorded or sent.";
  const wouldPass = pass.length ? ` What would pass: ${[...new Set(pass)].join("; ")}.` : "";
  return { tone: "bad", text: `${what}. ${nothing}${wouldPass}` };
}
