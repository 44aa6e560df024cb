import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { accountName, openAccounts } from "../../shell/session";
import { capital, plain } from "../../text/words";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Copy } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Outcome } from "../../ui/Outcome";
import { TYPES } from "../events/filters";
import { createWebhook, type Lane, replay, rotate, type Webhook } from "./data";

const WHAT = "change webhooks";

function Secret({ text, onClose }: { text: string; onClose: () => void }) {
  return (
    <div class="form">
      <p>
        <b>This is the only time that the secret is shown.</b> Your receiver verifies each delivery with it.
      </p>
      <pre class="code" tabIndex={0} role="region" aria-label="The secret">
        {text}
      </pre>
      <div class="dialog-footer">
        <Copy text={text} label="Copy the secret" />
        <button type="button" class="button main" onClick={onClose}>
          Close
        </button>
      </div>
    </div>
  );
}

export function CreateForm({ onClose }: { onClose: (isDone: boolean) => void }) {
  const url = useSignal("https://");
  const description = useSignal("");
  const types = useSignal<ReadonlySet<string>>(new Set(["BROKER_ORDER", "BROKER_TRADE"]));
  const accounts = useSignal<ReadonlySet<string>>(new Set());
  const secret = useSignal("");
  const change = useChange();
  const create = async () => {
    const made = await createWebhook({
      url: url.value.trim(),
      types: TYPES.filter((each) => types.value.has(each)),
      ...(description.value.trim() && { description: description.value.trim() }),
      ...(accounts.value.size && { account_ids: [...accounts.value] }),
    });
    secret.value = made.secret ?? "";
    return "Created.";
  };
  const toggle = (of: typeof types, value: string) => {
    const changed = new Set(of.value);
    if (!changed.delete(value)) changed.add(value);
    of.value = changed;
  };
  return (
    <Dialog title={secret.value ? "The new secret" : "Create a webhook"} onClose={() => onClose(!!secret.value)}>
      {secret.value ? (
        <Secret text={secret.value} onClose={() => onClose(true)} />
      ) : (
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            void change.run(create);
          }}
        >
          <Field label="Address" type="url" value={url} hint="https, without a user, a password or a fragment" />
          <Field label="What it is for (optional)" value={description} max={500} />
          <fieldset>
            <legend>Events that are sent</legend>
            <div class="ticks">
              {TYPES.map((each) => (
                <label class="tick" key={each}>
                  <input type="checkbox" checked={types.value.has(each)} onChange={() => toggle(types, each)} />
                  {capital(plain(each))}
                </label>
              ))}
            </div>
          </fieldset>
          <fieldset>
            <legend>Only these accounts; none chosen: all</legend>
            <div class="ticks">
              {openAccounts.value.map(({ id, name }) => (
                <label class="tick" key={id}>
                  <input type="checkbox" checked={accounts.value.has(id)} onChange={() => toggle(accounts, id)} />
                  {name}
                </label>
              ))}
            </div>
          </fieldset>
          <Outcome of={change} />
          {change.failure && !change.failure.status && <p class="dim">If the answer was lost, the webhook may exist: look at the list before you try again.</p>}
          <Denied operation="MANAGE_WEBHOOKS" what={WHAT} />
          <div class="dialog-footer">
            <button type="button" class="button" onClick={() => onClose(!!change.failure)}>
              Cancel
            </button>
            <ChangeButton operation="MANAGE_WEBHOOKS" class="button main" isBusy={change.isBusy} disabled={!types.value.size}>
              Create
            </ChangeButton>
          </div>
        </form>
      )}
    </Dialog>
  );
}

export function RotateForm({ of, onClose }: { of: Webhook; onClose: (isDone: boolean) => void }) {
  const secret = useSignal("");
  const change = useChange();
  const act = async () => {
    secret.value = (await rotate(of)).secret ?? "";
    return "Rotated.";
  };
  return (
    <Dialog title="Rotate the secret" onClose={() => onClose(!!secret.value)}>
      {secret.value ? (
        <Secret text={secret.value} onClose={() => onClose(true)} />
      ) : (
        <div class="form">
          <p>For 24 hours every delivery is signed with both secrets, so that your receiver can change without a pause.</p>
          <Outcome of={change} />
          <Denied operation="MANAGE_WEBHOOKS" what={WHAT} />
          <div class="dialog-footer">
            <button type="button" class="button" onClick={() => onClose(false)}>
              Keep the secret
            </button>
            <ChangeButton operation="MANAGE_WEBHOOKS" class="button main" isBusy={change.isBusy} onClick={() => void change.run(act)}>
              Rotate
            </ChangeButton>
          </div>
        </div>
      )}
    </Dialog>
  );
}

export function ReplayForm({ of, lanes, account, onClose }: { of: Webhook; lanes: readonly Lane[]; account: string; onClose: (isDone: boolean) => void }) {
  const id = useId();
  const chosen = useSignal(account);
  const lane = lanes.find(({ account_id }) => account_id === chosen.value);
  const after = useSignal(String(lanes.find(({ account_id }) => account_id === account)?.position ?? ""));
  const change = useChange();
  const isNumber = /^\d{1,15}$/.test(after.value);
  return (
    <Dialog title="Continue after an event" onClose={() => onClose(!!change.done)}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (isNumber && !change.done) void change.run(() => replay(of.id, Number(after.value), chosen.value || undefined));
        }}
      >
        <p class="dim">An earlier number sends its events again; a number above the newest skips to the next new event.</p>
        <p class="form-field">
          <label for={id}>Account</label>
          <select id={id} class="field" value={chosen.value} onChange={(event) => (chosen.value = event.currentTarget.value)}>
            <option value="">All accounts</option>
            {lanes.map(({ account_id }) => (
              <option key={account_id} value={account_id}>
                {accountName(account_id)}
              </option>
            ))}
          </select>
        </p>
        <Field label="After event number" value={after} hint={lane ? `Its lane is at ${lane.position}, the newest event is ${lane.newest_seq}.` : undefined} />
        <Outcome of={change} />
        <Denied operation="MANAGE_WEBHOOKS" what={WHAT} />
        <div class="dialog-footer">
          <button type="button" class="button" onClick={() => onClose(!!change.done)}>
            {change.done ? "Close" : "Cancel"}
          </button>
          {!change.done && (
            <ChangeButton operation="MANAGE_WEBHOOKS" class="button main" isBusy={change.isBusy} disabled={!isNumber}>
              Continue there
            </ChangeButton>
          )}
        </div>
      </form>
    </Dialog>
  );
}
