import { useSignal } from "@preact/signals";
import { useReading } from "../../api/reading";
import { href, query } from "../../shell/router";
import { me } from "../../shell/session";
import { count, plain } from "../../text/words";
import { ChangeButton, Denied } from "../../ui/Change";
import { Loading, Problem } from "../../ui/Common";
import { useScreen } from "../../ui/screen";
import { CreateForm } from "./Forms";
import { readWebhooks, type Webhook } from "./data";
import { Detail } from "./Detail";
import "./webhooks.css";

function verdict({ status, lanes }: Webhook): { text: string; isGood: boolean } {
  if (status === "GONE") return { text: "ended: the target answered 410", isGood: false };
  if (status === "PAUSED") return { text: "paused", isGood: false };
  if (!lanes) return { text: plain(status), isGood: true };
  const { parked, failing, behind, accounts } = lanes;
  if (parked) return { text: `${count(parked, "lane")} parked`, isGood: false };
  if (failing) return { text: `${count(failing, "lane")} of ${accounts} failing`, isGood: false };
  return { text: behind ? `${count(behind, "lane")} behind` : `up to date on ${count(accounts, "account")}`, isGood: true };
}

function Line({ of, isChosen }: { of: Webhook; isChosen: boolean }) {
  const { text, isGood } = verdict(of);
  return (
    <tr data-id={of.id} class={isChosen ? "selected" : undefined}>
      <th scope="row" class="wide">
        <a href={href(`/webhooks?webhook=${of.id}`)} aria-current={isChosen ? "true" : undefined}>
          {of.url}
        </a>
      </th>
      <td class="wide">
        <span class={isGood ? "good-text" : "bad-text"}>
          {isGood ? "✓" : "✕"} {text}
        </span>
      </td>
      <td data-name="Events">{of.types.map(plain).join(", ")}</td>
      <td data-name="For">{of.description ?? "–"}</td>
    </tr>
  );
}

export default function WebhooksScreen() {
  const webhooks = useReading("webhooks", readWebhooks);
  const isCreating = useSignal(false);
  const all = webhooks.data;
  const chosen = all?.find(({ id }) => id === query.value.get("webhook")) ?? (all?.length === 1 ? all[0] : undefined);
  useScreen("webhooks", (!!all || !!webhooks.failure) && !!me.value);
  return (
    <section class="screen webhooks" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Webhooks</h1>
          <p class="dim">Did they get it? Each account has its own lane, in the order of its events.</p>
        </div>
        <span class="grow" />
        <button type="button" class="button" onClick={webhooks.again}>
          Read again
        </button>
        <ChangeButton operation="MANAGE_WEBHOOKS" class="button main" onClick={() => (isCreating.value = true)}>
          Create a webhook…
        </ChangeButton>
      </div>
      {!chosen && <Denied operation="MANAGE_WEBHOOKS" what="create webhooks" />}
      {webhooks.failure && <Problem failure={webhooks.failure} again={webhooks.again} />}
      {!all && webhooks.isLoading && <Loading what="the webhooks" />}
      {all?.length === 0 && (
        <p class="card note-line">
          <b>There is no webhook.</b> With one, events are sent to your address as signed requests:{" "}
          <code>openbell webhooks create https://hooks.example.com/openbell BROKER_ORDER BROKER_TRADE</code>
        </p>
      )}
      {all && all.length > 0 && (
        <section class="card scroll" tabIndex={0} aria-label="All webhooks">
          <table class="cards-on-phone">
            <thead>
              <tr>
                <th scope="col">Address</th>
                <th scope="col">State</th>
                <th scope="col">Events</th>
                <th scope="col">For</th>
              </tr>
            </thead>
            <tbody>
              {all.map((each) => (
                <Line key={each.id} of={each} isChosen={each.id === chosen?.id} />
              ))}
            </tbody>
          </table>
        </section>
      )}
      {chosen && <Detail key={chosen.id} of={chosen} again={webhooks.again} />}
      {isCreating.value && (
        <CreateForm
          onClose={(isDone) => {
            isCreating.value = false;
            if (isDone) webhooks.again();
          }}
        />
      )}
    </section>
  );
}
