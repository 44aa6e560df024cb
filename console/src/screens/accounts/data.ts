/** Changes of accounts and their credentials. Each is made once: a repeated call changes nothing more. */
import { api, failureOf, type Schemas, take } from "../../api/api";
import { readAccount } from "../../shell/session";

export type Credential = Schemas["Credential"];
type Account = Schemas["Account"];

const of = (account_id: string) => ({ path: { account_id } });

/** Refused with 412 if the object has changed since this version. */
const at = (account_id: string, version: number | undefined) => ({
  ...of(account_id),
  ...(version !== undefined && { header: { "If-Match": `"${version}"` } }),
});

/** Undefined if the account has none. */
export async function readCredential(account_id: string, signal: AbortSignal): Promise<Credential | undefined> {
  try {
    return await take(api.GET("/v1/accounts/{account_id}/credentials", { params: of(account_id), signal }));
  } catch (error) {
    if (failureOf(error).status === 404) return undefined;
    throw error;
  }
}

export async function readFields(broker: string): Promise<readonly Schemas["BrokerCredentialField"][] | undefined> {
  const { data } = await take(api.GET("/v1/brokers"));
  return data.find(({ name }) => name === broker)?.credentials?.fields;
}

export async function putCredential(account_id: string, fields: Record<string, string>, expires_at: string | undefined, version: number | undefined) {
  const body = { fields, ...(expires_at && { expires_at }) };
  await take(api.PUT("/v1/accounts/{account_id}/credentials", { params: at(account_id, version), body }));
  await readAccount(account_id);
  return "The credential is stored, encrypted. An executor signs in with it now.";
}

const VERIFIED: Record<string, string> = {
  VALID: "The broker accepted the credential.",
  INVALID: "The broker refused the credential. Replace it.",
  EXPIRED: "The broker says that the credential has expired. Replace it.",
};

export async function verify(account_id: string): Promise<string> {
  const { status } = await take(api.POST("/v1/accounts/{account_id}/credentials/verify", { params: of(account_id) }));
  await readAccount(account_id);
  return VERIFIED[status] ?? `The credential is ${status}.`;
}

export async function removeCredential(account_id: string): Promise<string> {
  await take(api.DELETE("/v1/accounts/{account_id}/credentials", { params: of(account_id) }));
  await readAccount(account_id);
  return "The credential is removed, and its secrets are destroyed.";
}

export async function disable({ id, version }: Account, disabled: boolean, reason: string): Promise<string> {
  const body = { disabled, ...(disabled && reason && { disabled_reason: reason }) };
  await take(api.PATCH("/v1/accounts/{account_id}", { params: at(id, version), body }));
  await readAccount(id);
  return disabled ? "Disabled on every process. Working orders are still followed, and cancels are accepted." : "Enabled.";
}

export async function close({ id, version }: Account): Promise<string> {
  await take(api.DELETE("/v1/accounts/{account_id}", { params: at(id, version) }));
  await readAccount(id);
  return "Closed permanently. Its history stays readable.";
}
