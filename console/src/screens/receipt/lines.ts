/** The lines of a receipt, as the pages show them. */
import type { Schemas } from "@openbell/client";
import { grouped, isDecimal, isNegative, negate, thousandths } from "../../text/decimal";
import { plain } from "../../text/words";

type Finding = Schemas["Finding"];

const COMPARISONS: Record<string, string> = {
  AT_MOST: "at most",
  AT_LEAST: "at least",
  EQUALS: "exactly",
  MULTIPLE_OF: "a multiple of",
  ONE_OF: "one of",
  NONE_OF: "none of",
  WITHIN: "within",
};

export const comparisonWord = (comparison: string): string => COMPARISONS[comparison] ?? plain(comparison);

/** A limit or an observed value: a number with commas, a list, or a text as it is. */
export function valueText(value: Finding["limit"] | undefined): string {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return value.toLocaleString("en-US");
  if (typeof value === "string") return isDecimal(value) ? grouped(value) : value;
  return value.map((each) => (typeof each === "string" ? each : each.join(" – "))).join(", ");
}

export interface Room {
  /** How full it is, in thousandths; above 1000 if the limit is exceeded. */
  part: number;
  text: string;
}

/** What was left to an upper limit; undefined where that has no meaning. */
export function roomOf({ comparison, limit, observed, headroom, missing }: Finding): Room | undefined {
  if (comparison !== "AT_MOST" || missing !== undefined) return undefined;
  const [most, seen] = [limit, observed].map((value) => (typeof value === "number" ? String(value) : value));
  if (!isDecimal(most) || !isDecimal(seen)) return undefined;
  const part = thousandths(seen, most, 9_999);
  if (part === undefined) return undefined;
  if (headroom === undefined || !isDecimal(headroom)) return { part, text: `${Math.floor(part / 10)} %` };
  const text = isNegative(headroom) ? `${grouped(negate(headroom))} over` : `${grouped(headroom)} left`;
  return { part, text };
}

export interface Judgement {
  word: string;
  tone: "good" | "bad" | "unknown" | "plain";
}

/** A rule whose input was missing was not judged: its verdict is what the rule is set to do then. */
export function judgementOf(rule: Finding, exempt: string | undefined): Judgement {
  if (rule.missing !== undefined) {
    const verdict = rule.verdict === "PASSED" ? "let pass" : plain(rule.verdict);
    return { word: `not judged: ${rule.missing} is missing; ${verdict}`, tone: rule.verdict === "REFUSED" ? "bad" : "unknown" };
  }
  if (rule.verdict === "REFUSED") return { word: "refused", tone: "bad" };
  if (rule.verdict === "WOULD_REFUSE") return { word: "would refuse; shadow mode only records it", tone: "unknown" };
  if (rule.verdict === "EXCEEDED") {
    return { word: exempt ? `exceeded; the command is exempt (${plain(exempt)})` : "exceeded", tone: "unknown" };
  }
  return { word: "passed", tone: "good" };
}
