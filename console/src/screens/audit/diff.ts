/** What a change changed, and where the object is shown. */

import { haltAddress } from "../../text/addresses";

export interface Difference {
  name: string;
  before: string | undefined;
  after: string | undefined;
}

function fieldsOf(text: string | undefined): Record<string, unknown> {
  if (!text) return {};
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : { value };
  } catch {
    return { value: text };
  }
}

const textOf = (value: unknown): string | undefined =>
  value === undefined ? undefined : typeof value === "string" ? value : JSON.stringify(value);

/** The fields that differ; of a new object all that it has. */
export function differences(before: string | undefined, after: string): Difference[] {
  const [old, fresh] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(fresh)])];
  return names
    .map((name) => ({ name, before: textOf(old[name]), after: textOf(fresh[name]) }))
    .filter((each) => each.before !== each.after && !(each.before === undefined && each.after === "null"));
}

/** The screen of the object; undefined if it has none. */
export function addressOf(operation: string, object_id: string, after: string): string | undefined {
  const kind = operation.split(" ")[0] ?? "";
  const { account_id } = fieldsOf(after);
  if (kind === "accounts") return `/accounts?account=${object_id}`;
  if (kind === "credentials") return `/accounts?account=${typeof account_id === "string" ? account_id : object_id}`;
  if (kind === "keys") return `/keys?key=${object_id}`;
  if (kind === "webhooks") return `/webhooks?webhook=${object_id}`;
  if (kind === "paper" && typeof account_id === "string") return `/chaos?account=${account_id}`;
  if (kind === "controls") return addressOfControl(object_id);
  return undefined;
}

/** Of "SYMBOL <account> TSLA SWITCH", "KEY <key> LOSS_MAX", "ACCOUNT <account> QTY_MAX", "ORGANIZATION QTY_MAX". */
function addressOfControl(object_id: string): string {
  const [scope = "", id, symbol] = object_id.split(" ");
  const place = {
    scope,
    ...(scope === "KEY" && { api_key_id: id }),
    ...((scope === "ACCOUNT" || scope === "SYMBOL") && { account_id: id }),
    ...(scope === "SYMBOL" && { symbol }),
  };
  const address = haltAddress(place);
  return object_id.endsWith(" SWITCH") ? address : address.replace("/halt", "/controls");
}
