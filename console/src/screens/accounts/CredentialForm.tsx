import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { Problem } from "../../ui/Common";
import { useReading } from "../../api/reading";
import type { Account } from "../../shell/session";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Dialog } from "../../ui/Dialog";
import { Outcome } from "../../ui/Outcome";
import { type Credential, putCredential, readFields } from "./data";

/** Values are written only: the platform never returns one. What was typed stays if it fails. */
export function CredentialForm({ of, before, onClose }: { of: Account; before: Credential | undefined; onClose: (isChanged: boolean) => void }) {
  const id = useId();
  const fields = useReading(of.broker, () => readFields(of.broker));
  const values = useSignal<Record<string, string>>({});
  const expires = useSignal("");
  const change = useChange();
  const isDone = !!change.done;
  const isComplete = fields.data?.every(({ name }) => values.value[name]) ?? false;
  const send = () => {
    const until = expires.value && new Date(`${expires.value}Z`).toISOString();
    return putCredential(of.id, values.value, until || undefined, before?.version);
  };
  const submit = (event: Event) => {
    event.preventDefault();
    if (isComplete && !isDone) void change.run(send);
  };
  return (
    <Dialog title={`${before ? "Replace the" : "Set a"} credential of ${of.name}`} onClose={() => onClose(isDone)}>
      <form class="form" onSubmit={submit}>
        <p class="dim">All fields are replaced. Values are encrypted at once and never shown again.</p>
        {fields.failure && <Problem failure={fields.failure} again={fields.again} />}
        {fields.data?.map(({ name, title, secret, length_max }) => (
          <p class="form-field" key={name}>
            <label for={`${id}-${name}`}>{title}</label>
            <input
              id={`${id}-${name}`}
              class="field"
              type={(secret ? "password" : "text") as "text"}
              maxLength={length_max}
              autocomplete="new-password"
              spellcheck={false}
              disabled={isDone}
              value={values.value[name] ?? ""}
              onInput={(event) => {
                values.value = { ...values.value, [name]: event.currentTarget.value };
              }}
            />
          </p>
        ))}
        <p class="form-field">
          <label for={`${id}-expires`}>Expires (UTC), if it does</label>
          <input id={`${id}-expires`} class="field" type="datetime-local" disabled={isDone} value={expires.value} onInput={(event) => (expires.value = event.currentTarget.value)} />
        </p>
        <Outcome of={change} />
        <Denied operation="EDIT_CREDENTIALS" what="change credentials" />
        <div class="dialog-footer">
          <button type="button" class="button" onClick={() => onClose(isDone)}>
            {isDone ? "Close" : "Cancel"}
          </button>
          {!isDone && (
            <ChangeButton operation="EDIT_CREDENTIALS" class="button main" isBusy={change.isBusy} disabled={!isComplete}>
              {change.isBusy ? "Storing…" : "Store"}
            </ChangeButton>
          )}
        </div>
      </form>
    </Dialog>
  );
}
