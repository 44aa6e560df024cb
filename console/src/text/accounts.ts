/** Whether an account can trade, in a sentence. */
import type { Schemas } from "@openbell/client";

type Account = Schemas["Account"];

export interface CanTrade {
  word: "Can trade" | "Only reduces" | "Waits" | "Cannot trade" | "Closed";
  /** The reason, and what to do. */
  sentence: string;
  isGood: boolean;
}

const CREDENTIALS: Record<string, string> = {
  MISSING: "It has no broker credential. Set one.",
  INVALID: "The broker refused its credential. Replace it.",
  EXPIRED: "Its broker credential has expired. Replace it.",
};

const SESSIONS: Record<string, string> = {
  CONNECTING: "No executor is signed in at its broker now. Commands are accepted and wait.",
  DEGRADED: "The broker's feed for it is disconnected or does not report its orders. Commands can wait.",
  RECONCILING: "Its orders are being compared with the broker's. Commands wait until that is done.",
};

const no = (sentence: string): CanTrade => ({ word: "Cannot trade", sentence, isGood: false });

/** `halt` is the strictest switch of the account and of its organization. */
export function canTrade(account: Account, halt: string = "ACTIVE"): CanTrade {
  if (account.closed_at) return { word: "Closed", sentence: "It is closed permanently.", isGood: true };
  if (account.halt_code) {
    const detail = account.halt_detail ? `: ${account.halt_detail}` : "";
    return no(`Openbell halted it (${account.halt_code}${detail}). An operator resumes it.`);
  }
  if (account.disabled) return no(`It is disabled${account.disabled_reason ? `: ${account.disabled_reason}` : "."}`);
  if (halt === "HALTED") return no("A halt is in force. Only cancels are sent.");
  const credential = CREDENTIALS[account.credential_status];
  if (credential) return no(credential);
  if (halt === "REDUCE_ONLY") {
    return { word: "Only reduces", sentence: "Only commands that reduce a position are accepted.", isGood: false };
  }
  const session = SESSIONS[account.session_status];
  if (session) return { word: "Waits", sentence: session, isGood: false };
  return { word: "Can trade", sentence: "Accepted commands are sent at once.", isGood: true };
}

export const CREDENTIAL_WORDS: Record<string, string> = {
  VALID: "valid",
  INVALID: "refused by the broker",
  EXPIRED: "expired",
  MISSING: "missing",
  UNVERIFIED: "not verified yet",
  NOT_REQUIRED: "not required",
};

export const hasBadCredential = ({ credential_status, closed_at }: Account): boolean =>
  !closed_at && credential_status in CREDENTIALS;
