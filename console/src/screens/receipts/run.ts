/** Reads the chains of an account page by page and verifies them as they come. */
import { api, type Failure, failureOf, take } from "../../api/api";
import { type Flaw, type Heads, Verification } from "./verify";

const PAGE = 100;

export interface Progress {
  actions: number;
  refusals: number;
  heads: Heads | undefined;
  chainHead: string;
  refusalHead: string;
  flaws: readonly Flaw[];
  found: number;
  state: "running" | "stopped" | "done" | "failed";
  failure?: Failure;
}

type Known = ConstructorParameters<typeof Verification>[0];

async function verifyActions(account_id: string, verification: Verification, tick: (heads?: Heads) => void, signal: AbortSignal): Promise<Heads> {
  let heads: Heads | undefined;
  let next_cursor: string | undefined;
  do {
    const query = { limit: PAGE, ...(next_cursor && { next_cursor }) };
    const page = await take(api.GET("/v1/accounts/{account_id}/chain", { params: { path: { account_id }, query }, signal }));
    heads ??= page.heads;
    for (const action of page.data) {
      // Rows after the head belong to later heads.
      if (heads && action.number > heads.actions) break;
      await verification.action(action);
    }
    tick(heads);
    next_cursor = page.next_cursor ?? undefined;
  } while (next_cursor && (!heads || verification.actions < heads.actions));
  if (!heads) throw new Error("The first page of the chain has no heads");
  return heads;
}

async function verifyRefusals(account_id: string, verification: Verification, heads: Heads, tick: () => void, signal: AbortSignal): Promise<void> {
  let next_cursor: string | undefined;
  while (verification.refusals < heads.refusals) {
    const query = { refused: "true" as never, limit: PAGE, ...(next_cursor && { next_cursor }) };
    const page = await take(api.GET("/v1/accounts/{account_id}/receipts", { params: { path: { account_id }, query }, signal }));
    for (const receipt of page.data) {
      if (verification.refusals >= heads.refusals) break;
      await verification.refusal(receipt);
    }
    tick();
    next_cursor = page.next_cursor ?? undefined;
    if (!next_cursor) return;
  }
}

/** Never throws; `report` gets each step, and the end. */
export async function verifyAccount(account: string, known: Known, report: (progress: Progress) => void, signal: AbortSignal): Promise<void> {
  const verification = new Verification(known);
  let heads: Heads | undefined;
  const tell = (state: Progress["state"], failure?: Failure) => {
    const { actions, refusals, chainHead, refusalHead, flaws, found } = verification;
    report({ actions, refusals, chainHead, refusalHead, flaws: [...flaws], found, heads, state, failure });
  };
  const tick = (stated?: Heads) => {
    heads ??= stated;
    if (!signal.aborted) tell("running");
  };
  try {
    tick();
    heads = await verifyActions(account, verification, tick, signal);
    await verifyRefusals(account, verification, heads, tick, signal);
    signal.throwIfAborted();
    await verification.end(heads);
    tell("done");
  } catch (error) {
    if (signal.aborted) tell("stopped");
    else tell("failed", failureOf(error));
  }
}
