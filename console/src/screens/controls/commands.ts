/** The same change as a command to copy. */
import { type Place, placeArguments, placeOptions, quoted } from "../../ui/places";
import type { Parameters } from "./schema";
import type { Terms } from "./terms";

/** Each parameter as an option; all of them as one JSON object where an option cannot say it. */
function options(parameters: Parameters): string {
  const entries = Object.entries(parameters);
  if (entries.some(([, value]) => value === false || (Array.isArray(value) && !value.length))) {
    return quoted(JSON.stringify(parameters));
  }
  return entries
    .flatMap(([name, value]) => {
      const option = `--${name.replaceAll("_", "-")}`;
      if (value === true) return [option];
      return (Array.isArray(value) ? value : [value]).map((each) => `${option} ${quoted(String(each))}`);
    })
    .join(" ");
}

function python(value: unknown): string {
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  if (value && typeof value === "object") {
    return `{${Object.entries(value).map(([name, each]) => `${JSON.stringify(name)}: ${python(each)}`).join(", ")}}`;
  }
  return JSON.stringify(value);
}

export function ruleCommands(
  place: Place,
  code: string,
  terms: Terms,
  reason: string,
  version: number,
): Record<string, string> {
  const { mode, parameters, on_missing, expires_at } = terms;
  const why = reason || "why";
  const query = new URLSearchParams({ ...place } as Record<string, string>).toString();
  const body = { mode, parameters, reason: why, ...(on_missing && { on_missing }), ...(expires_at && { expires_at }) };
  const needsUser = place.scope === "ORGANIZATION" || place.scope === "KEY";
  const line = [
    `${needsUser ? "OPENBELL_ACCESS_TOKEN=$TOKEN " : ""}openbell controls rules set ${code}`,
    options(parameters),
    `--reason ${quoted(why)}`,
    mode === "HARD" ? "" : `--mode ${mode}`,
    on_missing ? `--on-missing ${on_missing}` : "",
    expires_at ? `--expires-at ${expires_at}` : "",
    `--if-version ${version}`,
    placeOptions(place),
  ];
  const calls = [
    JSON.stringify(code),
    python(parameters),
    `reason=${JSON.stringify(why)}`,
    ...(mode === "HARD" ? [] : [`mode="${mode}"`]),
    ...(on_missing ? [`on_missing="${on_missing}"`] : []),
    ...(expires_at ? [`expires_at=datetime.fromisoformat("${expires_at}")`] : []),
    `if_version=${version}`,
    placeArguments(place),
  ];
  return {
    CLI: line.filter(Boolean).join(" "),
    curl: `curl -s -X PUT "$OPENBELL_URL/v1/controls/rules/${code}?${query}" \\
  -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' -H 'If-Match: "${version}"' \\
  -d ${quoted(JSON.stringify(body))}`,
    Python: `client.set_rule(${calls.join(", ")})`,
    TypeScript: `await client.take(client.api.PUT("/v1/controls/rules/{code}", {
  params: { path: { code: "${code}" }, query: ${JSON.stringify(place)}, header: { "If-Match": '"${version}"' } },
  body: ${JSON.stringify(body)},
}));`,
  };
}
