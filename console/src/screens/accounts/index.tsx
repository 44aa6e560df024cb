import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { failureOf, type Failure } from "../../api/api";
import { useLive } from "../../live/use";
import { href } from "../../shell/router";
import { account as chosen, type Account, accounts, me, readWho } from "../../shell/session";
import { CREDENTIAL_WORDS, canTrade, hasBadCredential } from "../../text/accounts";
import { count } from "../../text/words";
import { AccountName, AccountState } from "../../ui/AccountCells";
import { Loading, Problem } from "../../ui/Common";
import { useScreen } from "../../ui/screen";
import { Detail } from "./Detail";
import "./accounts.css";

function Line({ of, isChosen }: { of: Account; isChosen: boolean }) {
  const may = canTrade(of);
  return (
    <tr data-id={of.id} class={isChosen ? "selected" : undefined}>
      <AccountName of={of} href={href(`/accounts?account=${of.id}`)} isCurrent={isChosen} />
      <AccountState may={may} />
      <td data-name="Credential">
        <span class={hasBadCredential(of) ? "bad-text" : undefined}>{CREDENTIAL_WORDS[of.credential_status]}</span>
      </td>
      <td data-name="Broker">{of.broker}</td>
    </tr>
  );
}

export default function AccountsScreen() {
  const failure = useSignal<Failure | undefined>(undefined);
  const read = () => {
    failure.value = undefined;
    readWho().catch((error: unknown) => (failure.value = failureOf(error)));
  };
  // Whether an executor is signed in is no event: what is shown is as of this reading, and changes with events.
  useEffect(read, []);
  useLive({ events: () => undefined, begun: read });
  useScreen("accounts", !!me.value || !!failure.value);
  const all = [...accounts.value].sort((a, b) => Number(!!a.closed_at) - Number(!!b.closed_at));
  const cannot = all.filter((each) => !each.closed_at && !canTrade(each).isGood).length;
  const of = chosen.value;
  return (
    <section class="screen accounts" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Accounts</h1>
          {me.value && (
            <p class="dim" role="status">
              {count(all.length, "account")}, {cannot ? `${cannot} cannot trade now` : "all open ones can trade"}
            </p>
          )}
        </div>
        <span class="grow" />
        <button type="button" class="button" onClick={read}>
          Read again
        </button>
      </div>
      {failure.value && <Problem failure={failure.value} again={read} />}
      {!me.value && !failure.value && <Loading what="your accounts" />}
      {me.value && all.length === 0 && (
        <p class="card note-line">
          <b>There is no account yet.</b> An admin opens one: <code>openbell accounts create "Paper 1"</code>
        </p>
      )}
      <div class={of ? "two" : undefined}>
        {all.length > 0 && (
          <section class="card scroll" tabIndex={0} aria-label="All accounts">
            <table class="cards-on-phone">
              <thead>
                <tr>
                  <th scope="col">Account</th>
                  <th scope="col">Can it trade?</th>
                  <th scope="col">Credential</th>
                  <th scope="col">Broker</th>
                </tr>
              </thead>
              <tbody>
                {all.map((each) => (
                  <Line key={each.id} of={each} isChosen={each.id === of?.id} />
                ))}
              </tbody>
            </table>
          </section>
        )}
        {of && <Detail of={of} key={of.id} />}
      </div>
      {!of && all.length > 0 && <p class="dim">Choose an account to replace or verify its credential, disable it or close it.</p>}
    </section>
  );
}
