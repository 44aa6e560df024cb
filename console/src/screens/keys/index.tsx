import { useSignal } from "@preact/signals";
import { useReading } from "../../api/reading";
import { href, query } from "../../shell/router";
import { accountName, can, me } from "../../shell/session";
import { full } from "../../text/time";
import { count } from "../../text/words";
import { ChangeButton, Denied } from "../../ui/Change";
import { Empty, Loading, Problem } from "../../ui/Common";
import { useScreen } from "../../ui/screen";
import { Ago, now } from "../../ui/Time";
import { CreateForm } from "./CreateForm";
import { readKeys } from "./data";
import { Detail } from "./Detail";
import { isAgent, type Key, PERMISSIONS, stateOf } from "./key";
import "./keys.css";

function Line({ of, isChosen }: { of: Key; isChosen: boolean }) {
  const state = stateOf(of, now.value);
  return (
    <tr data-id={of.id} class={isChosen ? "selected" : state === "in use" ? undefined : "ended"}>
      <th scope="row">
        <a href={href(`/keys?key=${of.id}`)} aria-current={isChosen ? "true" : undefined}>
          {of.name}
        </a>{" "}
        {isAgent(of) && <span class="pill">agent</span>} <span class={`environment is-${of.environment}`}>{of.environment}</span>
      </th>
      <td class="nowrap">
        <span class={state === "in use" ? "good-text" : "bad-text"}>{state}</span>
      </td>
      <td class="nowrap">{of.last_used_at ? <span title={full(of.last_used_at)}><Ago at={of.last_used_at} /></span> : <span class="dim">never</span>}</td>
      <td class="nowrap">{of.expires_at ? of.expires_at.slice(0, 10) : <span class="dim">never</span>}</td>
      <td>{of.account_ids ? of.account_ids.map(accountName).join(", ") : <span class="dim">all {of.environment}</span>}</td>
      {PERMISSIONS.map(([name, text]) => {
        const has = of.permissions.includes(name);
        return (
          <td key={name} class="may" title={`${name}: ${text}`}>
            <span aria-hidden="true">{has ? "●" : "·"}</span>
            <span class="hidden-text">{has ? "yes" : "no"}</span>
          </td>
        );
      })}
    </tr>
  );
}

function Table({ keys, chosen }: { keys: readonly Key[]; chosen: string | undefined }) {
  return (
    <section class="card scroll" tabIndex={0} aria-label="API keys and their permissions">
      <table class="matrix">
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">State</th>
            <th scope="col">Last used</th>
            <th scope="col">Expires</th>
            <th scope="col">Accounts</th>
            {PERMISSIONS.map(([name, text]) => (
              <th key={name} scope="col" class="may" title={text}>
                <span>{name}</span>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {keys.map((each) => (
            <Line key={each.id} of={each} isChosen={each.id === chosen} />
          ))}
        </tbody>
      </table>
    </section>
  );
}

function Content() {
  const keys = useReading("keys", readKeys);
  const isCreating = useSignal(false);
  const id = query.value.get("key") ?? "";
  const chosen = keys.data?.find((each) => each.id === id);
  useScreen("keys", !!keys.data || !!keys.failure);
  return (
    <>
      <div class="form-row">
        {keys.data && <span class="dim">{count(keys.data.filter((each) => stateOf(each, now.value) === "in use").length, "key")} in use</span>}
        <span class="grow" />
        <button type="button" class="button" onClick={keys.again}>
          Read again
        </button>
        <ChangeButton operation="MANAGE_KEYS" class="button main" onClick={() => (isCreating.value = true)}>
          Create a key…
        </ChangeButton>
      </div>
      {keys.failure && <Problem failure={keys.failure} again={keys.again} />}
      {!keys.data && keys.isLoading && <Loading what="the keys" />}
      {keys.data?.length === 0 && (
        <Empty>
          <p>
            <b>There is no API key.</b> A program signs in with one; create it here, or with <code>openbell keys create</code>.
          </p>
        </Empty>
      )}
      {keys.data && keys.data.length > 0 && <Table keys={keys.data} chosen={chosen?.id} />}
      {chosen && <Detail key={chosen.id} of={chosen} state={stateOf(chosen, now.value)} again={keys.again} />}
      {keys.data && !chosen && keys.data.length > 0 && <p class="dim">Choose a key for what it can do at worst, and to disable or revoke it.</p>}
      {isCreating.value && (
        <CreateForm
          onClose={(isDone) => {
            isCreating.value = false;
            if (isDone) keys.again();
          }}
        />
      )}
    </>
  );
}

/** Only admins may list keys. */
function NotAllowed() {
  useScreen("keys", true);
  return (
    <div class="card">
      <Denied operation="MANAGE_KEYS" what="see or change API keys" />
    </div>
  );
}

export default function KeysScreen() {
  return (
    <section class="screen keys-screen" aria-labelledby="title">
      <h1 id="title">API keys</h1>
      {!me.value ? <Loading what="what you may do" /> : can("MANAGE_KEYS") ? <Content /> : <NotAllowed />}
    </section>
  );
}
