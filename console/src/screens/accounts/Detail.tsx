import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { useReading } from "../../api/reading";
import { href } from "../../shell/router";
import type { Account } from "../../shell/session";
import { CREDENTIAL_WORDS, canTrade } from "../../text/accounts";
import { haltAddress } from "../../text/addresses";
import { full } from "../../text/time";
import { plain } from "../../text/words";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Code } from "../../ui/Code";
import { Loading, Problem } from "../../ui/Common";
import { Confirm } from "../../ui/Confirm";
import { Copy } from "../../ui/Copy";
import { Field } from "../../ui/Field";
import { Outcome } from "../../ui/Outcome";
import { now, Time } from "../../ui/Time";
import { CredentialForm } from "./CredentialForm";
import { close, type Credential, disable, readCredential, removeCredential, verify } from "./data";

const DAY = 86_400_000;
/** The bar is full if so many days are left. */
const FULL_DAYS = 90;

function Expiry({ at }: { at: string }) {
  const days = Math.max(0, Math.floor((Date.parse(at) - now.value) / DAY));
  const isSoon = days < 14;
  return (
    <span class="expiry">
      <time dateTime={at}>{full(at)}</time> <b class={isSoon ? "bad-text" : undefined}>{days} days left</b>
      <svg viewBox={`0 0 ${FULL_DAYS} 6`} preserveAspectRatio="none" aria-hidden="true">
        <rect width={FULL_DAYS} height="6" class="empty" />
        <rect width={Math.min(FULL_DAYS, days)} height="6" class={isSoon ? "soon" : undefined} />
      </svg>
    </span>
  );
}

function CredentialFacts({ of }: { of: Credential }) {
  return (
    <dl class="facts">
      <dt>Status</dt>
      <dd>
        <b class={of.status === "VALID" ? "good-text" : "bad-text"}>{CREDENTIAL_WORDS[of.status]}</b>
      </dd>
      <dt>Ends with</dt>
      <dd>
        <code>{of.hint}</code> <span class="dim">of {of.kind}; secrets are never shown</span>
      </dd>
      <dt>Verified</dt>
      <dd>{of.verified_at ? <Time at={of.verified_at} day /> : "never"}</dd>
      <dt>Expires</dt>
      <dd>{of.expires_at ? <Expiry at={of.expires_at} /> : "no expiry is known"}</dd>
      <dt>Changed</dt>
      <dd>
        <Time at={of.updated_at} day /> <span class="dim">version {of.version}</span>
      </dd>
    </dl>
  );
}

function CredentialCard({ of }: { of: Account }) {
  const credential = useReading(of.id, (signal) => readCredential(of.id, signal));
  const change = useChange();
  const open = useSignal<"" | "replace" | "remove">("");
  useEffect(() => {
    if (credential.data || credential.failure) credential.again();
  }, [of.version, of.credential_status]);
  const closed = (isChanged: boolean) => {
    open.value = "";
    if (isChanged) credential.again();
  };
  const found = credential.data;
  return (
    <section class="card" aria-labelledby="credential-title">
      <header>
        <h2 id="credential-title">Credential at {of.broker}</h2>
      </header>
      <div class="pad form">
        {credential.isLoading && !found && <Loading what="the credential" />}
        {credential.failure && <Problem failure={credential.failure} again={credential.again} />}
        {found ? <CredentialFacts of={found} /> : !credential.isLoading && !credential.failure && <p>The account has no credential: {CREDENTIAL_WORDS[of.credential_status]}.</p>}
        <Outcome of={change} />
        {!of.closed_at && (
          <div class="form-row">
            <ChangeButton operation="EDIT_CREDENTIALS" onClick={() => (open.value = "replace")}>
              {found ? "Replace…" : "Set…"}
            </ChangeButton>
            {found && (
              <>
                <ChangeButton operation="EDIT_CREDENTIALS" isBusy={change.isBusy} onClick={() => void change.run(() => verify(of.id)).then(credential.again)}>
                  {change.isBusy ? "Asking the broker…" : "Verify now"}
                </ChangeButton>
                <ChangeButton operation="EDIT_CREDENTIALS" onClick={() => (open.value = "remove")}>
                  Remove…
                </ChangeButton>
              </>
            )}
          </div>
        )}
      </div>
      <Denied operation="EDIT_CREDENTIALS" what="change or verify credentials" />
      {open.value === "replace" && <CredentialForm of={of} before={found} onClose={closed} />}
      {open.value === "remove" && (
        <Confirm title={`Remove the credential of ${of.name}?`} operation="EDIT_CREDENTIALS" what="remove credentials" name={of.name} word="Remove" act={() => removeCredential(of.id)} onClose={closed}>
          <p>Its secrets are destroyed. If the broker needs a credential, the account sends no new orders afterwards.</p>
        </Confirm>
      )}
    </section>
  );
}

function StateCard({ of }: { of: Account }) {
  const may = canTrade(of);
  const reason = useSignal("");
  const change = useChange();
  const isClosing = useSignal(false);
  return (
    <section class="card" aria-labelledby="state-title">
      <header>
        <h2 id="state-title">{of.name}</h2>
        <span class={`environment is-${of.environment}`}>{of.environment}</span>
        <span class="grow" />
        <a class="button small" href={href(`/orders?account=${of.id}`)}>
          Orders
        </a>
        <a class="button small" href={href(haltAddress({ scope: "ACCOUNT", account_id: of.id }))}>
          Halt…
        </a>
      </header>
      <div class="pad form">
        <p>
          <b class={may.isGood ? "good-text" : "bad-text"}>{may.word}.</b> {may.sentence}
        </p>
        <dl class="facts">
          <dt>Id</dt>
          <dd>
            <code>{of.id}</code> <Copy text={of.id} label="Copy the id of the account" />
          </dd>
          <dt>Broker</dt>
          <dd>
            {of.broker} {of.profile && `profile ${of.profile}`} · {of.base_currency} · {of.timezone}
          </dd>
          <dt>At the broker</dt>
          <dd>{of.external_account_id ? <code>{of.external_account_id}</code> : "not known yet"}</dd>
          <dt>Executor</dt>
          <dd>{plain(of.session_status)}</dd>
          <dt>Opened</dt>
          <dd>
            <Time at={of.created_at} day />
          </dd>
        </dl>
        {!of.closed_at && !of.disabled && <Field label="Why, for the record (optional)" value={reason} max={500} />}
        <Outcome of={change} />
        {!of.closed_at && (
          <div class="form-row">
            <ChangeButton operation="EDIT_ACCOUNTS" isBusy={change.isBusy} onClick={() => void change.run(() => disable(of, !of.disabled, reason.value.trim())).then((isDone) => isDone && (reason.value = ""))}>
              {of.disabled ? "Enable" : "Disable"}
            </ChangeButton>
            <ChangeButton operation="EDIT_ACCOUNTS" onClick={() => (isClosing.value = true)}>
              Close the account…
            </ChangeButton>
          </div>
        )}
      </div>
      <Denied operation="EDIT_ACCOUNTS" what="disable, enable or close accounts" />
      {isClosing.value && (
        <Confirm title={`Close ${of.name} permanently?`} operation="EDIT_ACCOUNTS" what="close accounts" name={of.name} word="Close it" act={() => close(of)} onClose={() => (isClosing.value = false)}>
          <p>It is possible only if no order is working and every command is settled. The credential's secrets are destroyed; the history stays readable.</p>
        </Confirm>
      )}
    </section>
  );
}

export function Detail({ of }: { of: Account }) {
  const commands = {
    CLI: `openbell accounts show ${of.id}\nopenbell credentials verify ${of.id}\nopenbell accounts ${of.disabled ? "enable" : "disable"} ${of.id}`,
    curl: `curl -X POST "$OPENBELL_URL/v1/accounts/${of.id}/credentials/verify" -H "Authorization: Bearer $TOKEN"`,
  };
  return (
    <div class="form">
      <StateCard of={of} />
      <CredentialCard of={of} />
      <Code title="The same as a command" texts={commands} />
    </div>
  );
}
