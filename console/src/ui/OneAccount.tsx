/** For screens about one account: the chosen one, else the first open one. */
import { account, type Account, me, openAccounts } from "../shell/session";
import { Empty, Loading } from "./Common";

export const shownAccount = (): Account | undefined => account.value ?? openAccounts.value[0];

/** Why there is no account to show. */
export function NoAccount() {
  if (!me.value) return <Loading what="your accounts" />;
  return (
    <Empty>
      <p>
        <b>Your organization has no open account.</b> An admin opens one: <code>openbell accounts create "Paper 1"</code>
      </p>
    </Empty>
  );
}
