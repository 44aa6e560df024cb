/** What these parameters would have refused in the past. */
import { href } from "../../shell/router";
import { accountName, openAccounts } from "../../shell/session";
import { full } from "../../text/time";
import { count } from "../../text/words";
import { Loading, Problem } from "../../ui/Common";
import type { Change } from "../../ui/Change";
import { placeKey } from "../../ui/places";
import { text } from "./schema";
import type { Backtest } from "./source";

export const WINDOWS: readonly [string, string, number][] = [
  ["1", "1 day", 86_400_000],
  ["7", "7 days", 604_800_000],
  ["31", "31 days", 2_678_400_000],
];

export interface Tested {
  /** Of exactly these terms. */
  key: string;
  code: string;
  place: string;
  result: Backtest;
}

function tallyOf({ code, place, result }: Tested) {
  const own = result.by_rule.filter((each) => each.code === code);
  return own.find((each) => placeKey({ ...each, account_id: result.account_id }) === place) ?? own.at(-1);
}

function Examples({ tested }: { tested: Tested }) {
  const { result, code } = tested;
  if (!result.examples.length) return null;
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Examples of the back-test">
      <table class="stack examples">
        <thead>
          <tr>
            <th>Command</th>
            <th>Was</th>
            <th>Would be</th>
            <th>Refused by</th>
            <th>Limit</th>
            <th>Observed</th>
            <th>What would pass</th>
          </tr>
        </thead>
        <tbody>
          {result.examples.map((each) => {
            const finding =
              each.findings.find((of) => of.code === code && of.verdict !== "PASSED") ??
              each.findings.find((of) => of.verdict === "REFUSED");
            const id = each.receipt_id ?? each.action_id ?? each.at;
            return (
              <tr key={id} data-id={id}>
                <td class="nowrap">
                  {each.receipt_id ? (
                    <a href={href(`/accounts/${result.account_id}/receipts/${each.receipt_id}`)}>{full(each.at)}</a>
                  ) : (
                    full(each.at)
                  )}{" "}
                  <b>{each.symbol}</b>
                </td>
                <td data-label="Was">{each.was_refused ? "refused" : "accepted"}</td>
                <td data-label="Would be">{each.would_be_refused ? "refused" : "accepted"}</td>
                <td data-label="Refused by">{finding ? <code>{finding.code}</code> : "–"}</td>
                <td data-label="Limit">{finding ? text(finding.limit) : "–"}</td>
                <td data-label="Observed">{finding ? text(finding.observed) : "–"}</td>
                <td data-label="Would pass">{finding?.would_pass ?? "–"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Result({ tested, isFresh }: { tested: Tested; isFresh: boolean }) {
  const { result } = tested;
  const tally = tallyOf(tested);
  const shadow = tally?.would_refuse ?? 0;
  const refused = (tally?.refused ?? result.refused) + shadow;
  return (
    <div class={`result${isFresh ? "" : " is-old"}`} role="status" data-fresh={isFresh ? "" : undefined}>
      {!isFresh && <p class="note">The parameters changed since this back-test. Run it again to save.</p>}
      <p>
        <b>
          {shadow ? "Would have recorded" : "Would have refused"} {refused.toLocaleString("en-US")} of{" "}
          {count(result.intents, "command")}
        </b>{" "}
        on {accountName(result.account_id)} since {full(result.window.since)}
        {tally && tally.undecided > 0 && `; ${tally.undecided.toLocaleString("en-US")} undecided, because data is missing`}.
      </p>
      <p class="dim">
        With the other rules in force: {count(result.newly_refused, "command")} that were accepted would be refused,{" "}
        {count(result.newly_accepted, "command")} that were refused would pass.
        {result.intents === 0 && " There is nothing to judge: no order was submitted in this time."}
      </p>
      <Examples tested={tested} />
    </div>
  );
}

interface Props {
  account: string | undefined;
  setAccount: (id: string) => void;
  canChoose: boolean;
  window: string;
  setWindow: (days: string) => void;
  change: Change;
  tested: Tested | undefined;
  isFresh: boolean;
  /** Why this kind has no back-test; empty if it has. */
  cannot: string;
}

export function BacktestPanel(props: Props) {
  const { account, setAccount, canChoose, window: days, setWindow, change, tested, isFresh, cannot } = props;
  if (cannot) return <p class="note">{cannot} It can be saved without one.</p>;
  return (
    <section class="backtest" aria-label="Back-test">
      <div class="place">
        <label class="labelled">
          <span>Back-test of the last</span>
          <select class="field" value={days} onChange={(event) => setWindow(event.currentTarget.value)}>
            {WINDOWS.map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        {canChoose && (
          <label class="labelled">
            <span>Commands of</span>
            <select class="field" value={account ?? ""} onChange={(event) => setAccount(event.currentTarget.value)}>
              {openAccounts.value.map(({ id, name }) => (
                <option key={id} value={id}>
                  {name}
                </option>
              ))}
            </select>
          </label>
        )}
      </div>
      {change.isBusy && <Loading what="the commands of that time" />}
      {change.failure && <Problem failure={change.failure} />}
      {tested && !change.isBusy && <Result tested={tested} isFresh={isFresh} />}
    </section>
  );
}
