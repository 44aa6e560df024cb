/** The faults of the paper broker, and plans of them. */
export interface Fault {
  name: string;
  text: string;
  /** Milliseconds at most; without it the fault is a rate. */
  most?: number;
  /** 0 or 1. */
  isFlag?: boolean;
}

export interface Group {
  title: string;
  faults: readonly Fault[];
  /** The rates of the group together are at most 1: one command has one fault. */
  isExclusive?: boolean;
}

const rate = (name: string, text: string): Fault => ({ name, text });

export const GROUPS: readonly Group[] = [
  {
    title: "New orders",
    isExclusive: true,
    faults: [
      rate("hang", "Nothing is done, and no reply comes"),
      rate("accept_then_hang", "Accepted and executed, and no reply comes"),
      rate("accept_then_reset", "Accepted, then the connection is cut"),
      rate("error_500_after_accept", "Accepted, then the reply is an error"),
      rate("refused_but_placed", "Accepted, then the reply is a refusal with an unknown code"),
      rate("accept_late", "No reply comes, and it is accepted later"),
      rate("fill_before_ack", "The feed reports it half a second before the reply"),
      rate("session_reset", "Accepted, then the connection and the feeds are cut"),
      rate("too_many_requests", "429, nothing is done"),
      rate("too_many_requests_until", "429 with Retry-After, nothing is done"),
      rate("refuse", "Rejected"),
    ],
  },
  {
    title: "Fills and the feed",
    faults: [
      rate("duplicate_fills", "Each execution is reported twice"),
      rate("reorder_fills", "Simultaneous changes are reported in reverse order"),
      rate("fill_after_cancel", "The cancel is reported, and later the rest fills"),
      rate("bust", "The first execution is cancelled later"),
      rate("correct", "The price of the first execution is raised by a cent later"),
    ],
  },
  {
    title: "Times",
    faults: [
      { name: "slow_ms", text: "Every command is delayed by up to", most: 10_000 },
      { name: "find_lag_ms", text: "Look-ups do not find an order for", most: 10_000 },
      { name: "late_ms", text: "Late faults happen after", most: 600_000 },
      { name: "mute_ms", text: "The feed reports nothing for, from now on", most: 600_000 },
      { name: "by_terms", text: "The terms of an order decide its fault, not its id", most: 1, isFlag: true },
    ],
  },
  {
    title: "Replaces",
    isExclusive: true,
    faults: [
      rate("replace_hang", "Nothing is done, and no reply comes"),
      rate("replace_then_hang", "Done, and no reply comes"),
      rate("replace_then_reset", "Done, then the connection is cut"),
      rate("error_500_after_replace", "Done, then the reply is an error"),
      rate("refused_but_replaced", "Done, then the reply is a refusal"),
      rate("replace_late", "No reply comes, and it is done later"),
      rate("too_many_replaces", "429, nothing is done"),
      rate("replace_refuse", "Rejected"),
    ],
  },
  {
    title: "Cancels",
    isExclusive: true,
    faults: [
      rate("cancel_hang", "Nothing is done, and no reply comes"),
      rate("cancel_then_hang", "Done, and no reply comes"),
      rate("cancel_then_reset", "Done, then the connection is cut"),
      rate("error_500_after_cancel", "Done, then the reply is an error"),
      rate("refused_but_canceled", "Done, then the reply is a refusal"),
      rate("cancel_late", "No reply comes, and it is done later"),
      rate("too_many_cancels", "429, nothing is done"),
      rate("cancel_refuse", "Rejected"),
    ],
  },
];

export type Plan = Readonly<Record<string, number>>;

export const PRESETS: readonly (readonly [string, Plan])[] = [
  ["Lost answers", { hang: 0.1, accept_then_hang: 0.3 }],
  ["Late fills", { accept_late: 0.3, fill_after_cancel: 0.5, late_ms: 3000 }],
  ["Reports twice", { duplicate_fills: 1, reorder_fills: 1 }],
  ["Busts and corrections", { bust: 0.3, correct: 0.3, late_ms: 2000 }],
  ["Slow broker", { slow_ms: 2000, find_lag_ms: 2000 }],
  ["Too many requests", { too_many_requests: 0.2, too_many_requests_until: 0.2 }],
  ["Cancels go wrong", { cancel_hang: 0.2, cancel_refuse: 0.2, fill_after_cancel: 0.5 }],
];

/** Why the plan would be refused; empty if it would not. Rates are counted in hundredths, so that 0.1 + 0.2 is 0.3. */
export function problemOf(plan: Plan): string {
  for (const { title, faults, isExclusive } of GROUPS) {
    if (!isExclusive) continue;
    const hundredths = faults.reduce((sum, { name }) => sum + Math.round((plan[name] ?? 0) * 100), 0);
    if (hundredths > 100) return `The rates of “${title}” add up to ${hundredths} %. They may add up to 100 %, because a command has one fault.`;
  }
  return "";
}

export const isSame = (a: Plan, b: Plan): boolean =>
  [...new Set([...Object.keys(a), ...Object.keys(b)])].every((name) => a[name] === b[name]);

export function commandsOf(account: string, plan: Plan, seed: number): Record<string, string> {
  const pairs = Object.entries(plan).map(([name, value]) => `${name}=${value}`);
  const body = JSON.stringify({ faults: plan, seed });
  return {
    CLI: pairs.length
      ? `openbell paper break ${pairs.join(" ")} --seed ${seed} --account ${account}\nopenbell paper mend --account ${account}`
      : `openbell paper mend --account ${account}`,
    Python: `from openbell import Client\n\nwith Client(account_id="${account}") as client:\n    client.set_fault_plan(${JSON.stringify(plan)}, seed=${seed})`,
    curl: `curl -X PUT "$OPENBELL_URL/v1/accounts/${account}/paper/faults" -H "x-api-key: $OPENBELL_API_KEY" \\\n  -H 'Content-Type: application/json' -d '${body}'`,
  };
}
