import { type Signal, useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import { openAccounts } from "../../shell/session";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Copy } from "../../ui/Copy";
import { Dialog } from "../../ui/Dialog";
import { Field } from "../../ui/Field";
import { Outcome } from "../../ui/Outcome";
import { createKey } from "./data";
import { type NewKey, PERMISSIONS } from "./key";

const useForm = () => ({
  name: useSignal(""),
  environment: useSignal<"paper" | "live">("paper"),
  expires: useSignal(""),
  isAgent: useSignal(false),
  permissions: useSignal<ReadonlySet<string>>(new Set(["intent:read", "event:read"])),
  accounts: useSignal<ReadonlySet<string>>(new Set()),
  ownOrders: useSignal(false),
  symbols: useSignal("AAPL, MSFT"),
  orderNotional: useSignal("1000"),
  dayNotional: useSignal("5000"),
  dayLoss: useSignal("200"),
  perMinute: useSignal("10"),
});
type Form = ReturnType<typeof useForm>;

function bodyOf(form: Form): NewKey {
  const { name, environment, expires, permissions, accounts } = form;
  const expires_at = expires.value ? `${expires.value}T00:00:00Z` : undefined;
  const common = { name: name.value.trim(), environment: environment.value, ...(expires_at && { expires_at }) };
  const account_ids = [...accounts.value];
  if (form.isAgent.value) {
    const agent = {
      account_ids,
      symbols: form.symbols.value.toUpperCase().split(/[\s,]+/).filter(Boolean),
      order_notional: form.orderNotional.value,
      day_notional: form.dayNotional.value,
      day_loss: form.dayLoss.value,
      currency: "USD",
      orders_per_minute: Number.parseInt(form.perMinute.value, 10) || 0,
    };
    return { ...common, agent };
  }
  return {
    ...common,
    permissions: PERMISSIONS.map(([each]) => each).filter((each) => permissions.value.has(each)),
    own_orders_only: form.ownOrders.value,
    ...(account_ids.length && { account_ids }),
  };
}

function Ticks({ title, of, options }: { title: string; of: Signal<ReadonlySet<string>>; options: readonly (readonly [string, string])[] }) {
  return (
    <fieldset>
      <legend>{title}</legend>
      <div class="ticks">
        {options.map(([value, text]) => (
          <label class="tick" key={value}>
            <input
              type="checkbox"
              checked={of.value.has(value)}
              onChange={() => {
                const changed = new Set(of.value);
                if (!changed.delete(value)) changed.add(value);
                of.value = changed;
              }}
            />
            {text}
          </label>
        ))}
      </div>
    </fieldset>
  );
}

function Budget({ form }: { form: Form }) {
  return (
    <>
      <Field label="Symbols that it may trade" value={form.symbols} />
      <div class="form-row">
        <Field label="One order, USD" value={form.orderNotional} />
        <Field label="All orders of a day, USD" value={form.dayNotional} />
        <Field label="Loss of a day, USD" value={form.dayLoss} />
        <Field label="Orders a minute" value={form.perMinute} />
      </div>
    </>
  );
}

function Fields({ form }: { form: Form }) {
  const id = useId();
  const kinds = [
    [false, "For a program"],
    [true, "For an AI agent"],
  ] as const;
  const accounts = openAccounts.value.filter(({ environment }) => environment === form.environment.value);
  const allowed = PERMISSIONS.filter(([each]) => !each.startsWith("control:edit") || each.endsWith(form.environment.value));
  return (
    <>
      <div class="choice" role="group" aria-label="Kind">
        {kinds.map(([isAgent, text]) => (
          <button type="button" key={text} class="button" aria-pressed={form.isAgent.value === isAgent} onClick={() => (form.isAgent.value = isAgent)}>
            {text}
          </button>
        ))}
      </div>
      <Field label="Name" value={form.name} max={128} />
      <div class="form-row">
        <p class="form-field">
          <label for={`${id}-environment`}>Accounts</label>
          <select id={`${id}-environment`} class="field" value={form.environment.value} onChange={(event) => (form.environment.value = event.currentTarget.value as "paper")}>
            <option value="paper">paper</option>
            <option value="live">live</option>
          </select>
        </p>
        <Field label={form.isAgent.value ? "Expires (UTC)" : "Expires (UTC), if it does"} type="date" value={form.expires} />
      </div>
      {form.isAgent.value ? <Budget form={form} /> : <Ticks title="Permissions" of={form.permissions} options={allowed.map(([each, text]) => [each, text])} />}
      <Ticks title={form.isAgent.value ? "Its accounts" : "Only these accounts; none chosen: all"} of={form.accounts} options={accounts.map((each) => [each.id, each.name])} />
      {!form.isAgent.value && (
        <label class="tick">
          <input type="checkbox" checked={form.ownOrders.value} onChange={() => (form.ownOrders.value = !form.ownOrders.value)} />
          It may cancel and replace only orders that it created
        </label>
      )}
    </>
  );
}

/** The text of the key, once: what was copied is compared before the form is left. */
function Made({ text, onClose }: { text: string; onClose: () => void }) {
  const pasted = useSignal("");
  const isSame = pasted.value.trim() === text;
  return (
    <div class="form">
      <p>
        <b>This is the only time that the key is shown.</b> Copy it to where your program reads it.
      </p>
      <pre class="code" tabIndex={0} role="region" aria-label="The key">
        {text}
      </pre>
      <p>
        <Copy text={text} label="Copy the key" />
      </p>
      <Field label="Paste it here, to check your copy" value={pasted} hint={isSame ? "✓ The copy is right." : pasted.value ? "This is not the key." : undefined} />
      <div class="dialog-footer">
        <button type="button" class={isSame ? "button main" : "button"} onClick={onClose}>
          {isSame ? "Close" : "Close without a check"}
        </button>
      </div>
    </div>
  );
}

export function CreateForm({ onClose }: { onClose: (isDone: boolean) => void }) {
  const form = useForm();
  const made = useSignal("");
  const change = useChange();
  const create = async () => {
    const { api_key = "", name } = await createKey(bodyOf(form));
    made.value = api_key;
    return `Created ${name}.`;
  };
  const isComplete = form.name.value.trim() && (!form.isAgent.value || (form.expires.value && form.accounts.value.size));
  return (
    <Dialog title={made.value ? "The new key" : "Create an API key"} onClose={() => !made.value && onClose(false)}>
      {made.value ? (
        <Made text={made.value} onClose={() => onClose(true)} />
      ) : (
        <form
          class="form"
          onSubmit={(event) => {
            event.preventDefault();
            if (isComplete) void change.run(create);
          }}
        >
          <Fields form={form} />
          <Outcome of={change} />
          {change.failure && !change.failure.status && <p class="dim">If the answer was lost, the key may exist: look at the list before you try again.</p>}
          <Denied operation="MANAGE_KEYS" what="create keys" />
          <div class="dialog-footer">
            <button type="button" class="button" onClick={() => onClose(!!change.failure)}>
              Cancel
            </button>
            <ChangeButton operation="MANAGE_KEYS" class="button main" isBusy={change.isBusy} disabled={!isComplete}>
              {change.isBusy ? "Creating…" : "Create"}
            </ChangeButton>
          </div>
        </form>
      )}
    </Dialog>
  );
}
