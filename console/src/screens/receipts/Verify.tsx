import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Account } from "../../shell/session";
import { count } from "../../text/words";
import { Problem } from "../../ui/Common";
import { Copy } from "../../ui/Copy";
import { Field } from "../../ui/Field";
import { type Progress, verifyAccount } from "./run";
import { headOf } from "./verify";

function Head({ what, number, head, stated }: { what: string; number: number; head: string; stated: string | undefined }) {
  const text = `${number}:${head}`;
  return (
    <>
      <dt>{what}</dt>
      <dd>
        <code class="head">{text}</code> <Copy text={text} label={`Copy the head of the ${what.toLowerCase()}`} />{" "}
        {stated !== undefined && (
          <b class={stated === head ? "good-text" : "bad-text"}>{stated === head ? "✓ as the account states" : "✕ the account states another"}</b>
        )}
      </dd>
    </>
  );
}

function Result({ of }: { of: Progress }) {
  const { actions, refusals, heads, state, flaws, found } = of;
  const isDone = state === "done";
  const total = heads ? heads.actions + heads.refusals : 0;
  return (
    <div class="form">
      <p class={`verdict-line ${isDone ? (found ? "bad" : "good") : ""}`} role="status">
        {isDone && !found && `✓ ${count(actions, "action")} and ${count(refusals, "refusal")} verified. Nothing differs.`}
        {found > 0 && `✕ ${count(found, "thing")} ${found === 1 ? "differs" : "differ"}. The first: ${flaws[0]?.where}: ${flaws[0]?.what}.`}
        {!isDone && !found && `${count(actions, "action")} and ${count(refusals, "refusal")} verified${state === "stopped" ? "; stopped" : " so far"}.`}
      </p>
      {state === "running" && <progress aria-label="Verified" max={total || 1} value={actions + refusals} />}
      {of.failure && <Problem failure={of.failure} />}
      {flaws.length > 1 && (
        <ul class="flaws">
          {flaws.slice(1).map(({ where, what }) => (
            <li key={where + what}>
              {where}: {what}
            </li>
          ))}
        </ul>
      )}
      {isDone && (
        <dl class="facts">
          <Head what="Actions" number={actions} head={of.chainHead} stated={heads?.chain_head} />
          <Head what="Refusals" number={refusals} head={of.refusalHead} stated={heads?.refusal_head} />
        </dl>
      )}
    </div>
  );
}

/** Verifies in this browser: only the rows come from the server. */
export function Verify({ of }: { of: Account }) {
  const progress = useSignal<Progress | undefined>(undefined);
  const chainHead = useSignal("");
  const refusalHead = useSignal("");
  const running = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => running.current?.abort(), []);
  const isRunning = progress.value?.state === "running";
  const wrong = [chainHead, refusalHead].some(({ value }) => value.trim() && !headOf(value));
  const start = () => {
    running.current = new AbortController();
    const [actions, refusals] = [headOf(chainHead.value), headOf(refusalHead.value)];
    const known = { ...(actions && { actions }), ...(refusals && { refusals }) };
    void verifyAccount(of.id, known, (each) => (progress.value = each), running.current.signal);
  };
  return (
    <section class="card" aria-labelledby="verify-title">
      <header>
        <h2 id="verify-title">Verify in this browser</h2>
        <span class="grow" />
        {isRunning ? (
          <button type="button" class="button" onClick={() => running.current?.abort()}>
            Stop
          </button>
        ) : (
          <button type="button" class="button main" disabled={wrong} onClick={start}>
            {progress.value ? "Verify again" : `Verify all of ${of.name}`}
          </button>
        )}
      </header>
      <div class="pad form">
        <p class="dim">
          The hash of every action and every receipt is computed here, and both chains up to their heads. Each receipt is compared with its command.{" "}
          <code>openbell receipts verify</code> also repeats each rule's comparison, offline.
        </p>
        <details>
          <summary>Compare with heads that you stored elsewhere</summary>
          <div class="form">
            <p class="dim">Whoever can change every row can also compute every hash again. Only a head that was stored elsewhere shows that.</p>
            <Field label="Head of the actions, NUMBER:HASH" value={chainHead} max={90} />
            <Field label="Head of the refusals, NUMBER:HASH" value={refusalHead} max={90} />
            {wrong && <p class="bad-text">A head is a number, a colon and 64 hexadecimal digits.</p>}
          </div>
        </details>
        {progress.value && <Result of={progress.value} />}
      </div>
    </section>
  );
}
