/** The first three commands, while there is no order yet. */
import { account, openAccounts } from "../../shell/session";
import { Code } from "../../ui/Code";

export function First() {
  const of = account.value ?? openAccounts.value[0];
  if (!of) {
    return (
      <section class="card">
        <p class="pad">
          <b>Your organization has no account yet.</b> An admin opens one:{" "}
          <code>openbell accounts create "Paper 1"</code>
        </p>
      </section>
    );
  }
  const commands = [
    `export OPENBELL_ACCOUNT=${of.id}`,
    "openbell intents create AAPL BUY 10 --wait",
    "openbell events list --limit 10",
  ];
  const python = `from openbell import Client\n\nwith Client(account_id="${of.id}") as client:\n    intent = client.buy("AAPL", 10)\n    print(client.wait(intent.intent_id).execution)`;
  return <Code title={`Submit the first order on ${of.name}`} texts={{ CLI: commands.join("\n"), Python: python }} />;
}
