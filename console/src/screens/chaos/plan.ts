/** Reads and changes the faults of an account. */
import { api, type Schemas, take } from "../../api/api";
import type { Plan } from "./faults";

const of = (account_id: string) => ({ params: { path: { account_id } } });

export const readPlan = (account: string, signal: AbortSignal): Promise<Schemas["FaultPlan"]> =>
  take(api.GET("/v1/accounts/{account_id}/paper/faults", { ...of(account), signal }));

export async function putPlan(account: string, faults: Plan, seed: number): Promise<string> {
  await take(api.PUT("/v1/accounts/{account_id}/paper/faults", { ...of(account), body: { faults, seed } }));
  return "In effect at once, for this account only, until it is removed.";
}

export async function removePlan(account: string): Promise<string> {
  await take(api.DELETE("/v1/accounts/{account_id}/paper/faults", of(account)));
  return "The faults are removed. Delayed ones that have not happened yet still do.";
}
