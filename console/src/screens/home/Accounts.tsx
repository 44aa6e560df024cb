import type { Schemas } from "../../api/api";
import { href } from "../../shell/router";
import type { Account } from "../../shell/session";
import { haltAddress } from "../../text/addresses";
import { canTrade } from "../../text/accounts";
import { AccountName, AccountState } from "../../ui/AccountCells";
import { isPhone } from "../../ui/layout";
import { Mark } from "../../ui/State";
import { Ago } from "../../ui/Time";
import type { Home } from "./data";

/** The strictest switch of the account and its organization that is in force now. */
function haltOf(switches: readonly Schemas["Switch"][], id: string): string {
  const states = switches
    .filter(({ scope, account_id }) => scope === "ORGANIZATION" || (scope === "ACCOUNT" && account_id === id))
    .map(({ status }) => status);
  return states.includes("HALTED") ? "HALTED" : states.includes("REDUCE_ONLY") ? "REDUCE_ONLY" : "ACTIVE";
}

function Row({ account, home, unknown }: { account: Account; home: Home; unknown: number }) {
  // The object stays the same when its counts change.
  void home.version.value;
  const may = canTrade(account, haltOf(home.switches, account.id));
  const open = home.open.of(account.id);
  const last = home.fills.last(account.id);
  return (
    <tr data-id={account.id}>
      <AccountName of={account} href={href(`/orders?account=${account.id}`)} />
      <AccountState may={may} />
      <td class="right" data-name="Working">
        <a href={href(`/orders?account=${account.id}&state=working,partial,queued,sending,unknown`)}>
          {open.toLocaleString("en-US")}
          {open >= 1000 && "+"}
          <span class="hidden-text"> working orders of {account.name}</span>
        </a>
      </td>
      <td class="right" data-name="Unknown">
        {unknown ? (
          <a class="state is-unknown" href={href(`/unknown?account=${account.id}`)}>
            <Mark state="UNKNOWN" />
            {unknown.toLocaleString("en-US")}
            <span class="hidden-text"> in doubt on {account.name}</span>
          </a>
        ) : (
          "0"
        )}
      </td>
      <td data-name="Last fill">{last ? <Ago at={last} /> : <span class="dim">{home.fills.knownSince ? "earlier" : "none"}</span>}</td>
      <td data-name={isPhone.value ? "Stop" : undefined}>
        <a class="button small" href={href(haltAddress({ scope: "ACCOUNT", account_id: account.id }))}>
          Halt…<span class="hidden-text"> {account.name}</span>
        </a>
      </td>
    </tr>
  );
}

export function Accounts({ accounts, home, unknown }: {
  accounts: readonly Account[];
  home: Home;
  unknown: ReadonlyMap<string, number>;
}) {
  return (
    <section class="card" aria-labelledby="accounts-title">
      <header>
        <h2 id="accounts-title">What may trade</h2>
      </header>
      <div class="scroll" tabIndex={0} role="region" aria-label="Table of accounts">
        <table class="cards-on-phone home-accounts">
          <thead>
            <tr>
              <th scope="col">Account</th>
              <th scope="col">State</th>
              <th scope="col" class="right">
                Working
              </th>
              <th scope="col" class="right">
                Unknown
              </th>
              <th scope="col">Last fill</th>
              <th scope="col">Stop</th>
            </tr>
          </thead>
          <tbody>
            {accounts.map((each) => (
              <Row key={each.id} account={each} home={home} unknown={unknown.get(each.id) ?? 0} />
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
