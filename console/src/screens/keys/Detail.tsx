import { useSignal } from "@preact/signals";
import { useReading } from "../../api/reading";
import { href } from "../../shell/router";
import { accountName } from "../../shell/session";
import { haltAddress } from "../../text/addresses";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Code } from "../../ui/Code";
import { Problem } from "../../ui/Common";
import { Confirm } from "../../ui/Confirm";
import { Outcome } from "../../ui/Outcome";
import { Time } from "../../ui/Time";
import { readWorstCase, revoke, setDisabled } from "./data";
import { type Key, type KeyState, PERMISSIONS } from "./key";

function WorstCase({ of }: { of: Key }) {
  const worst = useReading(of.id, (signal) => readWorstCase(of.id, signal));
  return (
    <section class="card" aria-labelledby="worst-title">
      <header>
        <h2 id="worst-title">What it can do at worst</h2>
        {worst.data && (
          <span class="dim">
            as of <Time at={worst.data.as_of} />
          </span>
        )}
      </header>
      {worst.failure && <Problem failure={worst.failure} again={worst.again} />}
      <ul class="sentences">
        {worst.data?.sentences.map((text) => (
          <li key={text}>{text}</li>
        ))}
      </ul>
    </section>
  );
}

export function Detail({ of, state, again }: { of: Key; state: KeyState; again: () => void }) {
  const change = useChange();
  const isRevoking = useSignal(false);
  const commands = {
    CLI: `openbell keys show ${of.id}\nopenbell keys worst-case ${of.id}\nopenbell keys ${of.disabled ? "enable" : "disable"} ${of.id}`,
    curl: `curl "$OPENBELL_URL/v1/api-keys/${of.id}/worst-case" -H "Authorization: Bearer $TOKEN"`,
  };
  return (
    <div class="form">
      <section class="card" aria-labelledby="key-title">
        <header>
          <h2 id="key-title">{of.name}</h2>
          <span class={`environment is-${of.environment}`}>{of.environment}</span>
          <span class={`pill ${state === "in use" ? "good" : "bad"}`}>{state}</span>
          <span class="grow" />
          <a class="button small" href={href(haltAddress({ scope: "KEY", api_key_id: of.id }))}>
            Halt…
          </a>
        </header>
        <div class="pad form">
          <dl class="facts">
            <dt>Public id</dt>
            <dd>
              <code>{of.key_id}</code>
            </dd>
            <dt>Accounts</dt>
            <dd>{of.account_ids ? of.account_ids.map(accountName).join(", ") : `all ${of.environment} accounts`}</dd>
            <dt>May</dt>
            <dd>
              {PERMISSIONS.filter(([each]) => of.permissions.includes(each))
                .map(([, text]) => text)
                .join("; ")}
            </dd>
            <dt>Orders</dt>
            <dd>{of.own_orders_only ? "cancels and replaces only those that it created" : "cancels and replaces those of others too, with intent:edit"}</dd>
            <dt>Created</dt>
            <dd>
              <Time at={of.created_at} day />
            </dd>
          </dl>
          <Outcome of={change} />
          {!of.revoked_at && (
            <div class="form-row">
              <ChangeButton operation="MANAGE_KEYS" isBusy={change.isBusy} onClick={() => void change.run(() => setDisabled(of.id, !of.disabled)).then(again)}>
                {of.disabled ? "Enable" : "Disable"}
              </ChangeButton>
              <ChangeButton operation="MANAGE_KEYS" onClick={() => (isRevoking.value = true)}>
                Revoke…
              </ChangeButton>
            </div>
          )}
        </div>
        <Denied operation="MANAGE_KEYS" what="change keys" />
      </section>
      <WorstCase of={of} />
      <Code title="The same as a command" texts={commands} />
      {isRevoking.value && (
        <Confirm
          title={`Revoke ${of.name} permanently?`}
          operation="MANAGE_KEYS"
          what="revoke keys"
          name={of.name}
          word="Revoke it"
          act={() => revoke(of.id)}
          onClose={(isDone) => {
            isRevoking.value = false;
            if (isDone) again();
          }}
        >
          <p>Programs that use it are refused within a second. Its queued commands that were not sent are skipped; its cancels are still sent.</p>
        </Confirm>
      )}
    </div>
  );
}
