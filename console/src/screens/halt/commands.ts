/** The same change as a command to copy. */
import { type Place, placeArguments, placeOptions, quoted } from "../../ui/places";

export type Status = "ACTIVE" | "REDUCE_ONLY" | "HALTED";

export interface SwitchChange {
  status: Status;
  reason: string;
  cancel_working: boolean;
}

function commandLine(place: Place, { status, reason, cancel_working }: SwitchChange): string {
  const options = `--reason ${quoted(reason)}${cancel_working ? " --cancel-working" : ""}`;
  if (place.scope === "ACCOUNT" && status === "HALTED") return `openbell halt ${place.account_id} ${options}`;
  if (place.scope === "ACCOUNT" && status === "ACTIVE") {
    return `OPENBELL_ACCESS_TOKEN=$TOKEN openbell resume ${place.account_id} ${options}`;
  }
  const needsUser = status === "ACTIVE" || place.scope === "ORGANIZATION" || place.scope === "KEY";
  const token = needsUser ? "OPENBELL_ACCESS_TOKEN=$TOKEN " : "";
  return `${token}openbell controls switch set ${status} ${options} ${placeOptions(place)}`;
}

/** "REASON" as a string of Python or of TypeScript. */
const text = (value: string): string => JSON.stringify(value);

export function switchCommands(place: Place, change: SwitchChange): Record<string, string> {
  const reason = change.reason || "why";
  const body = { status: change.status, reason, ...(change.cancel_working && { cancel_working: true }) };
  const query = new URLSearchParams({ ...place } as Record<string, string>).toString();
  const cancel = change.cancel_working ? ", cancel_working=True" : "";
  return {
    CLI: commandLine(place, { ...change, reason }),
    curl: `curl -s -X PUT "$OPENBELL_URL/v1/controls/switches?${query}" \\
  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' \\
  -d ${quoted(JSON.stringify(body))}`,
    Python: `client.set_switch(${text(change.status)}, reason=${text(reason)}${cancel}, ${placeArguments(place)})`,
    TypeScript: `await client.take(client.api.PUT("/v1/controls/switches", {
  params: { query: ${JSON.stringify(place)} },
  body: ${JSON.stringify(body)},
}));`,
  };
}
