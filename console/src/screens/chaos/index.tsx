import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";
import type { Schemas } from "../../api/api";
import { useReading } from "../../api/reading";
import { Book } from "../../live/book";
import { useLive } from "../../live/use";
import { href } from "../../shell/router";
import { account as chosen, type Account, can, me, openAccounts } from "../../shell/session";
import { count } from "../../text/words";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Code } from "../../ui/Code";
import { Loading, Problem } from "../../ui/Common";
import { Newest } from "../../ui/Newest";
import { Outcome } from "../../ui/Outcome";
import { useScreen } from "../../ui/screen";
import { Ago } from "../../ui/Time";
import { sourceOf } from "../blotter/source";
import { commandsOf, isSame, type Plan, PRESETS, problemOf } from "./faults";
import { putPlan, readPlan, removePlan } from "./plan";
import { Sliders } from "./Sliders";
import "./chaos.css";

const ROWS = 16;

function useNewest(id: string): Book {
  const book = useMemo(() => {
    const source = sourceOf({ account: id, symbol: "", side: "", states: new Set() }, {}, true);
    return new Book(source, (act) => requestAnimationFrame(act));
  }, [id]);
  useEffect(() => void book.load(), [book]);
  useLive({ events: (events) => void book.apply(events, performance.now()), begun: () => void book.load() });
  return book;
}

function Banner({ of, plan }: { of: Account; plan: Schemas["FaultPlan"] }) {
  const names = Object.keys(plan.faults);
  if (!names.length) return <p class="dim">No fault is simulated on {of.name}.</p>;
  return (
    <p class="chaos-banner" role="status">
      <b>
        ⚠ {count(names.length, "fault")} on at {of.name}
      </b>{" "}
      {plan.set_at && (
        <>
          for <Ago at={plan.set_at} />
        </>
      )}
      : {names.join(", ")}, seed {plan.seed}
    </p>
  );
}

function SeedField({ value, set, isDenied }: { value: number; set: (value: number) => void; isDenied: boolean }) {
  return (
    <label class="form-row">
      <b>Seed</b>
      <input
        class="field seed"
        type="text"
        inputMode="numeric"
        pattern="[0-9]{1,15}"
        maxLength={15}
        disabled={isDenied}
        value={String(value)}
        onChange={(event) => {
          if (/^\d{1,15}$/.test(event.currentTarget.value)) set(Number(event.currentTarget.value));
          else event.currentTarget.value = String(value);
        }}
      />
      <span class="dim">the same seed causes the same faults for the same orders</span>
    </label>
  );
}

function Editor({ of, stored, again }: { of: Account; stored: Schemas["FaultPlan"]; again: () => void }) {
  const plan = useSignal<Plan>(stored.faults);
  const seed = useSignal(stored.seed);
  const change = useChange();
  const isDenied = !can("EDIT_ACCOUNTS");
  const problem = problemOf(plan.value);
  const isChanged = !isSame(plan.value, stored.faults) || seed.value !== stored.seed;
  const isEmpty = Object.keys(plan.value).length === 0;
  const set = (name: string, value: number | undefined) => {
    const { [name]: _, ...others } = plan.value;
    plan.value = value === undefined ? others : { ...others, [name]: value };
  };
  const save = () => void change.run(() => (isEmpty ? removePlan(of.id) : putPlan(of.id, plan.value, seed.value))).then((isDone) => isDone && again());
  const mend = () => {
    void change.run(() => removePlan(of.id)).then((isDone) => {
      if (!isDone) return;
      plan.value = {};
      again();
    });
  };
  return (
    <div class="form">
      <div class="form-row" role="group" aria-label="Presets">
        {PRESETS.map(([name, preset]) => (
          <button type="button" key={name} class="button small" aria-pressed={isSame(preset, plan.value)} disabled={isDenied} onClick={() => (plan.value = preset)}>
            {name}
          </button>
        ))}
      </div>
      <SeedField value={seed.value} set={(value) => (seed.value = value)} isDenied={isDenied} />
      {!Number.isSafeInteger(stored.seed) && <p class="bad-text">The stored seed is too large for this page. Saving replaces it.</p>}
      <div class="form-row">
        <ChangeButton operation="EDIT_ACCOUNTS" class="button main" isBusy={change.isBusy} disabled={!isChanged || !!problem} onClick={save}>
          {isEmpty ? "Remove all faults" : "Put in effect"}
        </ChangeButton>
        <ChangeButton operation="EDIT_ACCOUNTS" isBusy={change.isBusy} disabled={!stored.set_at} onClick={mend}>
          Mend: no faults
        </ChangeButton>
        {isChanged && !problem && <span class="dim">Not in effect yet.</span>}
        {problem && <span class="bad-text">{problem}</span>}
      </div>
      <Denied operation="EDIT_ACCOUNTS" what="change the faults of an account" />
      <Outcome of={change} />
      <Sliders plan={plan.value} set={set} isDenied={isDenied} />
      <Code title="The same as a command" texts={commandsOf(of.id, plan.value, seed.value)} />
    </div>
  );
}

function Content({ of }: { of: Account }) {
  const plan = useReading(of.id, (signal) => readPlan(of.id, signal));
  const book = useNewest(of.id);
  useScreen("chaos", !!plan.data || !!plan.failure);
  return (
    <>
      {plan.failure && <Problem failure={plan.failure} again={plan.again} />}
      {!plan.data && plan.isLoading && <Loading what="the faults of the account" />}
      {plan.data && <Banner of={of} plan={plan.data} />}
      <div class="two chaos-split">
        {plan.data && <Editor of={of} stored={plan.data} again={plan.again} />}
        <Newest book={book} most={ROWS} all={`/orders?account=${of.id}`} />
      </div>
    </>
  );
}

function None() {
  useScreen("chaos", !!me.value);
  if (!me.value) return <Loading what="your accounts" />;
  return (
    <p class="card note-line">
      {chosen.value ? (
        <>
          <b>{chosen.value.name} is at a real broker.</b> Faults can be simulated on accounts of the built-in paper broker only. Choose another account above.
        </>
      ) : (
        <>
          <b>There is no account of the paper broker.</b> An admin opens one: <code>openbell accounts create "Chaos"</code>
        </>
      )}
    </p>
  );
}

export default function ChaosScreen() {
  const isPaper = ({ broker, closed_at }: Account) => broker === "paper" && !closed_at;
  const papers = openAccounts.value.filter(isPaper);
  const of = chosen.value ? (isPaper(chosen.value) ? chosen.value : undefined) : papers[0];
  return (
    <section class="screen chaos" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Chaos</h1>
          <p class="dim">What does your program do on a bad day? The paper broker of one account fails as real brokers fail.</p>
        </div>
      </div>
      {papers.length > 1 && (
        <nav class="form-row" aria-label="Accounts of the paper broker">
          {papers.map((each) => (
            <a key={each.id} class="button small" href={href(`/chaos?account=${each.id}`)} aria-current={each.id === of?.id ? "true" : undefined}>
              {each.name}
            </a>
          ))}
        </nav>
      )}
      {of ? <Content of={of} key={of.id} /> : <None />}
    </section>
  );
}
