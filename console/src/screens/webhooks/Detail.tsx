import { useSignal } from "@preact/signals";
import type { Schemas } from "../../api/api";
import { useReading } from "../../api/reading";
import { accountName } from "../../shell/session";
import { full } from "../../text/time";
import { grouped } from "../../text/decimal";
import { plain } from "../../text/words";
import { ChangeButton, Denied, useChange } from "../../ui/Change";
import { Code } from "../../ui/Code";
import { Loading, Problem } from "../../ui/Common";
import { Confirm } from "../../ui/Confirm";
import { Copy } from "../../ui/Copy";
import { Outcome } from "../../ui/Outcome";
import { Ago, Time } from "../../ui/Time";
import { type Lane, readDetail, remove, setStatus, test, type Webhook } from "./data";
import { ReplayForm, RotateForm } from "./Forms";

function LaneState({ of }: { of: Lane }) {
  if (of.parked_at) {
    return (
      <>
        <b class="bad-text">Parked</b> <Ago at={of.parked_at} /> ago: nothing is sent until you resume it
      </>
    );
  }
  if (of.failing_since) {
    return (
      <>
        <b class="bad-text">Failing</b> for <Ago at={of.failing_since} />, {of.failures} attempts; next try {full(of.next_attempt_at)}
      </>
    );
  }
  return of.position < of.newest_seq ? <>Behind by {grouped(String(of.newest_seq - of.position))}</> : <span class="good-text">✓ Up to date</span>;
}

function LaneRow({ of, onReplay }: { of: Lane; onReplay: () => void }) {
  const part = of.newest_seq ? (of.position / of.newest_seq) * 100 : 100;
  return (
    <tr data-id={of.account_id}>
      <th scope="row" class="wide">
        {accountName(of.account_id)}
      </th>
      <td class="lane-cell wide">
        <svg class={`lane${of.parked_at || of.failing_since ? " bad" : ""}`} viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
          <rect width="100" height="8" class="empty" />
          <rect width={part} height="8" />
        </svg>
        <span class="nowrap">
          {grouped(String(of.position))} <span class="dim">of {grouped(String(of.newest_seq))}</span>
        </span>
      </td>
      <td class="wide">
        <LaneState of={of} />
        {of.last_error && <span class="dim"> · {of.last_error}</span>}
        {of.last_status !== undefined && <span class="dim"> · last answer {of.last_status}</span>}
      </td>
      <td>
        <ChangeButton operation="MANAGE_WEBHOOKS" class="button small" onClick={onReplay}>
          Replay…<span class="hidden-text"> {accountName(of.account_id)}</span>
        </ChangeButton>
      </td>
    </tr>
  );
}

function Attempts({ of }: { of: readonly Schemas["Attempt"][] }) {
  return (
    <section class="card" aria-labelledby="attempts-title">
      <header>
        <h2 id="attempts-title">Newest attempts</h2>
        <span class="dim">of the last three days</span>
      </header>
      {of.length === 0 ? (
        <p class="pad dim">No delivery was tried in the last three days.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of attempts">
          <table class="cards-on-phone">
            <thead>
              <tr>
                <th scope="col">Time (UTC)</th>
                <th scope="col">Account</th>
                <th scope="col" class="right">
                  Event
                </th>
                <th scope="col">Answer</th>
                <th scope="col" class="right">
                  Took
                </th>
                <th scope="col">Next try</th>
              </tr>
            </thead>
            <tbody>
              {of.map((each) => (
                <tr key={`${each.message_id}${each.attempted_at}`} data-id={each.message_id}>
                  <td class="wide">
                    <Time at={each.attempted_at} />
                  </td>
                  <td data-name="Account">{accountName(each.account_id)}</td>
                  <td class="right" data-name="Event">
                    {grouped(String(each.account_seq))}
                  </td>
                  <td data-name="Answer">
                    <span class={each.delivered ? "good-text" : "bad-text"}>
                      {each.delivered ? "✓" : "✕"} {each.status ?? plain(each.error ?? "no answer")}
                    </span>{" "}
                    <span class="dim">{each.message}</span>
                  </td>
                  <td class="right" data-name="Took">
                    {each.duration_millis} ms
                  </td>
                  <td data-name="Next try">{each.next_attempt_at ? full(each.next_attempt_at) : "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function Facts({ of }: { of: Webhook }) {
  return (
    <dl class="facts">
      <dt>Address</dt>
      <dd>
        <code>{of.url}</code> <Copy text={of.url} label="Copy the address" />
      </dd>
      {of.description && (
        <>
          <dt>For</dt>
          <dd>{of.description}</dd>
        </>
      )}
      <dt>Events</dt>
      <dd>{of.types.map(plain).join(", ")}</dd>
      <dt>Accounts</dt>
      <dd>{of.account_ids ? of.account_ids.map(accountName).join(", ") : `all${of.environment ? ` ${of.environment}` : ""} accounts`}</dd>
      {of.previous_secret_until && (
        <>
          <dt>Secrets</dt>
          <dd>two sign until {full(of.previous_secret_until)}</dd>
        </>
      )}
    </dl>
  );
}

type Form = { kind: "" | "rotate" | "delete" } | { kind: "replay"; account: string };

function Actions({ of, again, open }: { of: Webhook; again: () => void; open: (form: Form) => void }) {
  const change = useChange();
  const run = (act: () => Promise<string>) => void change.run(act).then(again);
  return (
    <>
      <Outcome of={change} />
      <div class="form-row">
        <ChangeButton operation="MANAGE_WEBHOOKS" isBusy={change.isBusy} onClick={() => run(() => test(of.id))}>
          {change.isBusy ? "Sending…" : "Send a test"}
        </ChangeButton>
        <ChangeButton operation="MANAGE_WEBHOOKS" isBusy={change.isBusy} onClick={() => run(() => setStatus(of, "ACTIVE"))}>
          {of.status === "ACTIVE" ? "Try failing lanes now" : "Resume"}
        </ChangeButton>
        {of.status === "ACTIVE" && (
          <ChangeButton operation="MANAGE_WEBHOOKS" isBusy={change.isBusy} onClick={() => run(() => setStatus(of, "PAUSED"))}>
            Pause
          </ChangeButton>
        )}
        <ChangeButton operation="MANAGE_WEBHOOKS" onClick={() => open({ kind: "replay", account: "" })}>
          Replay…
        </ChangeButton>
        <ChangeButton operation="MANAGE_WEBHOOKS" onClick={() => open({ kind: "rotate" })}>
          Rotate the secret…
        </ChangeButton>
        <ChangeButton operation="MANAGE_WEBHOOKS" onClick={() => open({ kind: "delete" })}>
          Delete…
        </ChangeButton>
      </div>
    </>
  );
}

export function Detail({ of, again }: { of: Webhook; again: () => void }) {
  const detail = useReading(of.id, (signal) => readDetail(of.id, signal));
  const form = useSignal<Form>({ kind: "" });
  const readAgain = () => {
    again();
    detail.again();
  };
  const closed = (isDone: boolean) => {
    form.value = { kind: "" };
    if (isDone) readAgain();
  };
  const commands = {
    CLI: `openbell webhooks lanes ${of.id}\nopenbell webhooks attempts ${of.id}\nopenbell webhooks test ${of.id}`,
    curl: `curl "$OPENBELL_URL/v1/webhooks/${of.id}/lanes" -H "x-api-key: $OPENBELL_API_KEY"`,
  };
  const lanes = detail.data?.lanes ?? [];
  return (
    <div class="form">
      <section class="card" aria-labelledby="webhook-title">
        <header>
          <h2 id="webhook-title">{new URL(of.url).host}</h2>
          <span class={`pill ${of.status === "ACTIVE" ? "good" : "bad"}`}>{plain(of.status)}</span>
          <span class="grow" />
          <button type="button" class="button small" onClick={readAgain}>
            Read again
          </button>
        </header>
        <div class="pad form">
          <Facts of={of} />
          <Actions of={of} again={readAgain} open={(opened) => (form.value = opened)} />
        </div>
        <Denied operation="MANAGE_WEBHOOKS" what="test or change webhooks" />
      </section>
      {detail.failure && <Problem failure={detail.failure} again={detail.again} />}
      {!detail.data && detail.isLoading && <Loading what="its lanes and attempts" />}
      {detail.data && (
        <section class="card" aria-labelledby="lanes-title">
          <header>
            <h2 id="lanes-title">Lanes</h2>
            <span class="dim">one for each account, in the order of its events</span>
          </header>
          <div class="scroll" tabIndex={0} role="region" aria-label="Table of lanes">
            <table class="cards-on-phone">
              <thead>
                <tr>
                  <th scope="col">Account</th>
                  <th scope="col">Delivered</th>
                  <th scope="col">State</th>
                  <th scope="col">Continue</th>
                </tr>
              </thead>
              <tbody>
                {lanes.map((each) => (
                  <LaneRow key={each.account_id} of={each} onReplay={() => (form.value = { kind: "replay", account: each.account_id })} />
                ))}
              </tbody>
            </table>
          </div>
        </section>
      )}
      {detail.data && <Attempts of={detail.data.attempts} />}
      <Code title="The same as a command" texts={commands} />
      {form.value.kind === "rotate" && <RotateForm of={of} onClose={closed} />}
      {form.value.kind === "replay" && <ReplayForm of={of} lanes={lanes} account={form.value.account} onClose={closed} />}
      {form.value.kind === "delete" && (
        <Confirm title="Delete the webhook?" operation="MANAGE_WEBHOOKS" what="delete webhooks" name={new URL(of.url).host} word="Delete it" act={() => remove(of)} onClose={closed}>
          <p>Events that it did not deliver yet are not sent. The log of each account keeps them.</p>
        </Confirm>
      )}
    </div>
  );
}
