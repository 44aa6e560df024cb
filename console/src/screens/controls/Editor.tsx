/** One rule at one place: its form, the back-test of exactly what was typed, the difference, and Save. */
import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { useReading } from "../../api/reading";
import { changesControls, useEvents } from "../../live/use";
import { setQuery } from "../../shell/router";
import { account, openAccounts } from "../../shell/session";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Code } from "../../ui/Code";
import { Loading, Problem } from "../../ui/Common";
import { editOperation, placeTitle } from "../../ui/names";
import { type Place, placeKey } from "../../ui/places";
import { BacktestPanel, type Tested, WINDOWS } from "./Backtest";
import { ruleCommands } from "./commands";
import { Conflict } from "./Conflict";
import { Differences } from "./Differences";
import { Fields } from "./Fields";
import { type RuleForm, useRuleForm, versionOf } from "./form";
import { History } from "./History";
import { RemoveDialog } from "./RemoveDialog";
import { backtest, type ControlKind, readRule, type Rule, setRule } from "./source";
import { CANNOT_BACKTEST, differences, MISSING_WORDS, termsKey } from "./terms";

const close = () => setQuery({ rule: undefined });

function useBacktest(place: Place, code: string, form: RuleForm) {
  const change = useChange();
  const tested = useSignal<Tested | undefined>(undefined);
  const days = useSignal("7");
  const chosen = useSignal<string | undefined>(undefined);
  const of = place.account_id ?? chosen.value ?? account.value?.id ?? openAccounts.value[0]?.id;
  const cannot =
    CANNOT_BACKTEST[code] ?? (of ? "" : "There is no account yet, so there are no commands for a back-test.");
  const millis = WINDOWS.find(([value]) => value === days.value)?.[2] ?? 0;
  const key = `${form.key} ${of} ${days.value}`;
  const run = () =>
    change.run(async () => {
      if (!of) return "";
      const since = new Date(Date.now() - millis).toISOString();
      const result = await backtest(of, place, code, form.terms, since);
      tested.value = { key, code, place: placeKey({ ...place, account_id: place.account_id ?? of }), result };
      return "";
    });
  return { change, tested: tested.value, isFresh: tested.value?.key === key, cannot, run, of, days, chosen };
}

function Options({ form }: { form: RuleForm }) {
  const { mode, on_missing, until } = form.form;
  return (
    <>
      <fieldset class="choices">
        <legend>Mode</legend>
        <label class="check">
          <input type="radio" name="mode" checked={mode === "HARD"} onChange={() => form.set({ mode: "HARD" })} />
          Hard: refuses
        </label>
        <label class="check">
          <input type="radio" name="mode" checked={mode === "SHADOW"} onChange={() => form.set({ mode: "SHADOW" })} />
          Shadow: only records what it would refuse
        </label>
      </fieldset>
      <label class="labelled">
        <span>If an input is missing</span>
        <select
          class="field"
          value={on_missing}
          onChange={(event) => form.set({ on_missing: event.currentTarget.value as typeof on_missing })}
        >
          <option value="">Default: refuse on live accounts, let pass on paper</option>
          <option value="DENY">{MISSING_WORDS.DENY}</option>
          <option value="ALLOW">{MISSING_WORDS.ALLOW}</option>
        </select>
      </label>
      <label class="labelled">
        <span>Until (UTC)</span>
        <input
          class="field"
          type="datetime-local"
          value={until}
          onInput={(event) => form.set({ until: event.currentTarget.value })}
        />
        <span class="hint">
          {until ? "Then the terms for good apply again." : "Empty: for good. With a time these are temporary terms."}
        </span>
      </label>
    </>
  );
}

/** Why Save waits; empty if it does not. */
function waits(form: RuleForm, isTested: boolean): string {
  if (!form.isValid) return "Fill in what is marked.";
  if (form.isBehind) return "Choose one of the two versions above.";
  if (!form.isChanged && form.base) return "Nothing was changed.";
  if (!isTested) return "Save waits until the back-test of exactly these parameters is shown.";
  return form.form.reason.trim() ? "" : "Enter a reason.";
}

interface Props {
  place: Place;
  kind: ControlKind;
  rule: Rule | undefined;
  again: () => void;
  onSaved: () => void;
}

function RuleEditor({ place, kind, rule, again, onSaved }: Props) {
  const { code } = kind;
  const form = useRuleForm(place, kind, rule);
  const tests = useBacktest(place, code, form);
  const save = useChange();
  const showsProblems = useSignal(false);
  const isRemoving = useSignal(false);
  const operation = editOperation(place.scope);
  const next = versionOf(form.base) + 1;
  const isTested = !!tests.cannot || tests.isFresh;
  const why = waits(form, isTested);
  const saved = (stored: Rule): string => {
    form.rebase(stored);
    form.set({ reason: "" });
    onSaved();
    return `Version ${stored.version} is saved and in force.`;
  };
  const send = () =>
    save.run(
      async () => saved(await setRule(place, code, form.terms, form.form.reason.trim(), versionOf(form.base))),
      async (failure) => {
        if (failure.status !== 412) return;
        const now = await readRule(place, code).catch(() => undefined);
        // The answer to an earlier attempt may have been lost: what is stored is what was sent.
        if (now && termsKey(now.in_force) === termsKey(form.terms)) await save.run(async () => saved(now));
        again();
      },
    );
  const submit = (event: Event) => {
    event.preventDefault();
    showsProblems.value = true;
    if (!form.isValid || form.isBehind) return;
    if (!isTested) void tests.run();
    else if (!why) void send();
  };
  return (
    <>
      {form.isBehind && form.isChanged && <Conflict form={form} theirs={rule} />}
      <form class="rule-form" onSubmit={submit}>
        <div class="rule-fields">
          <Fields
            fields={form.fields}
            typed={form.form.typed}
            problems={showsProblems.value ? form.problems : {}}
            set={(typed) => form.set({ typed })}
          />
          <Options form={form} />
          <label class="labelled wide">
            <span>Why</span>
            <input
              class="field"
              maxLength={500}
              placeholder="For the history, such as fat fingers"
              value={form.form.reason}
              onInput={(event) => form.set({ reason: event.currentTarget.value })}
            />
          </label>
        </div>
        <BacktestPanel
          account={tests.of}
          setAccount={(id) => {
            tests.chosen.value = id;
          }}
          canChoose={!place.account_id}
          window={tests.days.value}
          setWindow={(value) => {
            tests.days.value = value;
          }}
          change={tests.change}
          tested={tests.tested}
          isFresh={tests.isFresh}
          cannot={tests.cannot}
        />
        {form.isChanged && form.isValid && !form.isBehind && (
          <section aria-label="Difference">
            <h3>
              {form.base ? `Version ${next - 1} → ${next}` : "Not set → set"}
            </h3>
            <Differences of={differences(form.base?.in_force, form.terms)} />
            {form.base?.override && !form.form.until && <p class="note">Saving ends the temporary terms.</p>}
          </section>
        )}
        {save.failure && <Problem failure={save.failure} />}
        {save.done && (
          <p class="done" role="status">
            {save.done}
          </p>
        )}
        <div class="rule-buttons">
          <button
            type={isTested ? "button" : "submit"}
            class={`button${isTested ? "" : " main"}`}
            disabled={tests.change.isBusy || !!tests.cannot}
            onClick={isTested ? () => void tests.run() : undefined}
          >
            {tests.change.isBusy ? "Back-testing…" : "Back-test"}
          </button>
          <ChangeButton
            operation={operation}
            class={`button${isTested ? " main" : ""}`}
            isBusy={save.isBusy}
            disabled={!!why}
            onClick={isTested ? undefined : () => undefined}
          >
            {save.isBusy ? "Saving…" : form.base ? `Save version ${next}` : "Save the rule"}
          </ChangeButton>
          {rule && (
            <ChangeButton operation={operation} onClick={() => (isRemoving.value = true)}>
              Remove…
            </ChangeButton>
          )}
          <span class="hint-text">{why}</span>
        </div>
        <Denied
          operation={operation}
          what="change rules here"
          also={operation === "EDIT_CONTROLS" ? "An API key with control:edit of the account's environment may tighten." : ""}
        />
      </form>
      <History place={place} code={code} version={versionOf(rule)} onRestore={(terms) => form.load(terms)} />
      {form.isValid && (
        <Code
          title="The same as a command"
          texts={ruleCommands(place, code, form.terms, form.form.reason.trim(), versionOf(form.base))}
        />
      )}
      {isRemoving.value && rule && (
        <RemoveDialog
          place={place}
          rule={rule}
          onClose={() => (isRemoving.value = false)}
          onRemoved={() => {
            isRemoving.value = false;
            onSaved();
            again();
          }}
        />
      )}
    </>
  );
}

export function Editor({ place, kind, onSaved }: { place: Place; kind: ControlKind; onSaved: () => void }) {
  const { code } = kind;
  const reading = useReading(`${placeKey(place)} ${code}`, async (signal) => ({ rule: await readRule(place, code, signal) }));
  useEvents(changesControls, () => !reading.isLoading && reading.again());
  const title = useRef<HTMLHeadingElement>(null);
  useEffect(() => title.current?.focus(), []);
  return (
    <section class="card editor" aria-labelledby="editor" data-id={`${placeKey(place)} ${code}`}>
      <header>
        <h2 id="editor" tabIndex={-1} ref={title}>
          <code>{code}</code> of {placeTitle(place)}
        </h2>
        <span class="pill">{reading.data?.rule ? `version ${reading.data.rule.version}` : "not set"}</span>
        <span class="grow" />
        <button type="button" class="button small" onClick={close}>
          Close
        </button>
      </header>
      <div class="pad editor-body">
        <p class="dim">{kind.summary}</p>
        {reading.failure && <Problem failure={reading.failure} again={reading.again} />}
        {!reading.data && !reading.failure && <Loading what="the rule" />}
        {reading.data && (
          <RuleEditor
            key={`${placeKey(place)} ${code}`}
            place={place}
            kind={kind}
            rule={reading.data.rule}
            again={reading.again}
            onSaved={() => {
              reading.again();
              onSaved();
            }}
          />
        )}
      </div>
    </section>
  );
}
