/** What applies at the place: every rule by its code, the widest scope first, the strictest marked. */
import { Fragment } from "preact";
import { href } from "../../shell/router";
import { account } from "../../shell/session";
import { full } from "../../text/time";
import { Empty } from "../../ui/Common";
import { placeTitle, who } from "../../ui/names";
import { addressOf, type Placed, placeKey, SCOPE_WORDS } from "../../ui/places";
import { Ago } from "../../ui/Time";
import type { ControlKind, Effective, EffectiveRule } from "./source";
import { MISSING_WORDS, parametersText } from "./terms";

/** The address of the form of one rule. */
const ruleAddress = (place: Placed, code: string): string =>
  href(addressOf("/controls", place, { account: place.account_id ?? account.value?.id, rule: code }));

function Says({ rule }: { rule: EffectiveRule }) {
  return (
    <>
      {rule.parameters ? (
        parametersText(rule.parameters)
      ) : (
        <b>cannot be read by this version of the server, so it refuses everything</b>
      )}
      {rule.mode === "SHADOW" && (
        <>
          {" "}
          <span class="pill">shadow: only records</span>
        </>
      )}
      {rule.on_missing && <span class="dim"> · if an input is missing: {MISSING_WORDS[rule.on_missing]}</span>}
      {rule.expires_at && <span class="dim"> · until {full(rule.expires_at)}</span>}
    </>
  );
}

function Edit({ rule, kind }: { rule: EffectiveRule; kind: ControlKind | undefined }) {
  if (rule.code === "SWITCH") return <a href={href(addressOf("/halt", rule))}>Halt</a>;
  if (!kind?.settable || rule.scope === "PLATFORM" || rule.version === undefined) return null;
  return (
    <a class="button small" href={ruleAddress(rule, rule.code)}>
      Open<span class="hidden-text"> {rule.code} of {placeTitle(rule)}</span>
    </a>
  );
}

interface Props {
  effective: Effective;
  kinds: ReadonlyMap<string, ControlKind>;
  open: string;
}

function Line({ rule, kind, isOpen }: { rule: EffectiveRule; kind: ControlKind | undefined; isOpen: boolean }) {
  const id = `${placeKey(rule)} ${rule.code}`;
  return (
    <tr data-id={id} class={isOpen ? "is-here" : undefined}>
      <td class="code-cell">
        <code>{rule.code}</code>
      </td>
      <td data-label="Set at">
        {SCOPE_WORDS[rule.scope]} {rule.scope !== "PLATFORM" && rule.scope !== "ORGANIZATION" && <b>{placeTitle(rule)}</b>}
      </td>
      <td data-label="Says">
        <Says rule={rule} />
      </td>
      <td data-label="Decides">
        {rule.is_strictest ? <span class="pill good">✓ decides</span> : <span class="dim">–</span>}
      </td>
      <td data-label="Changed" class="changed">
        {rule.version === undefined ? (
          <span class="dim">a default of the platform</span>
        ) : (
          <>
            version {rule.version}, {who(rule.principal_type, rule.principal_id)},{" "}
            {rule.updated_at && <Ago at={rule.updated_at} />} <span class="dim">“{rule.reason}”</span>
          </>
        )}
      </td>
      <td class="right">
        <Edit rule={rule} kind={kind} />
      </td>
    </tr>
  );
}

export function InForce({ effective, kinds, open }: Props) {
  const order = [...kinds.keys()];
  const byCode = Map.groupBy(effective.rules, ({ code }) => code);
  const codes = [...byCode.keys()].sort((a, b) => order.indexOf(a) - order.indexOf(b));
  if (!codes.length) {
    return (
      <Empty>
        <p>
          <b>No rule is set here.</b> Every command passes that the broker takes. Add the first one above.
        </p>
      </Empty>
    );
  }
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Rules in force">
      <table class="stack rules">
        <thead>
          <tr>
            <th>Rule</th>
            <th>Set at</th>
            <th>Says</th>
            <th>Decides</th>
            <th>Changed</th>
            <th>
              <span class="hidden-text">Open</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {codes.map((code) => (
            <Fragment key={code}>
              {(byCode.get(code) ?? []).map((rule) => (
                <Line
                  key={placeKey(rule)}
                  rule={rule}
                  kind={kinds.get(code)}
                  isOpen={open === `${placeKey(rule)} ${code}`}
                />
              ))}
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}
