import { useSignal } from "@preact/signals";
import { useReading } from "../../api/reading";
import { afterEvent, type Row } from "../../live/rows";
import { useLive } from "../../live/use";
import { href } from "../../shell/router";
import type { Account } from "../../shell/session";
import { grouped } from "../../text/decimal";
import { count } from "../../text/words";
import { Code } from "../../ui/Code";
import { Loading, Problem } from "../../ui/Common";
import { Money } from "../../ui/Number";
import { NoAccount, shownAccount } from "../../ui/OneAccount";
import { useScreen } from "../../ui/screen";
import { Side } from "../../ui/State";
import { Time } from "../../ui/Time";
import { sourceOf } from "../blotter/source";
import { Verify } from "./Verify";
import "./receipts.css";

const ROWS_MAX = 500;

async function readRefusals(account: string): Promise<Row[]> {
  const found = await sourceOf({ account, symbol: "", side: "", states: new Set() }, {}, true).refusals?.();
  return (found ?? []).sort((a, b) => (a.id < b.id ? 1 : -1));
}

function Line({ of }: { of: Row }) {
  return (
    <tr data-id={of.id} data-state={of.state}>
      <td class="wide nowrap">
        <a href={href(`/accounts/${of.account}/receipts/${of.id}`)}>
          <Time at={of.at} day />
        </a>
      </td>
      <td class="wide">
        <code>{of.reason}</code>
      </td>
      <td data-name="Side">
        <Side side={of.side} />
      </td>
      <td class="right" data-name="Quantity">
        {grouped(of.quantity)}
      </td>
      <td data-name="Symbol">
        <b>{of.symbol}</b>
      </td>
      <td class="right" data-name="Limit">
        <Money value={of.limit} />
      </td>
    </tr>
  );
}

function Table({ rows }: { rows: readonly Row[] }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Table of refusals">
      <table class="cards-on-phone">
        <thead>
          <tr>
            <th scope="col">Receipt of (UTC)</th>
            <th scope="col">Refused by</th>
            <th scope="col">Side</th>
            <th scope="col" class="right">
              Quantity
            </th>
            <th scope="col">Symbol</th>
            <th scope="col" class="right">
              Limit
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((each) => (
            <Line key={each.id} of={each} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

function commandsOf(id: string): Record<string, string> {
  return {
    CLI: `openbell receipts refusals --account ${id}\nopenbell receipts export --account ${id} --output decisions.jsonl\nopenbell receipts verify decisions.jsonl`,
    Python: `from openbell import Client\n\nwith Client(account_id="${id}") as client:\n    for receipt in client.refusals():\n        print(receipt.refusal_no, receipt.hash)\n    print(client.chain().chain_head)`,
    curl: `curl "$OPENBELL_URL/v1/accounts/${id}/receipts?refused=true" -H "x-api-key: $OPENBELL_API_KEY"`,
  };
}

function Content({ of }: { of: Account }) {
  const refusals = useReading(of.id, () => readRefusals(of.id));
  const fresh = useSignal<readonly Row[]>([]);
  useLive({
    events: (events) => {
      const mine = events.filter(({ account_id, intent_refused }) => account_id === of.id && intent_refused);
      const rows = mine.flatMap((event) => afterEvent(undefined, event, 0) ?? []);
      if (rows.length) fresh.value = [...rows.reverse(), ...fresh.value].slice(0, ROWS_MAX);
    },
    begun: refusals.again,
  });
  useScreen("receipts", !!refusals.data || !!refusals.failure);
  const have = new Set(fresh.value.map(({ id }) => id));
  const rows = [...fresh.value, ...(refusals.data ?? []).filter(({ id }) => !have.has(id))].slice(0, ROWS_MAX);
  return (
    <>
      <Verify of={of} />
      {refusals.failure && <Problem failure={refusals.failure} again={refusals.again} />}
      {!refusals.data && refusals.isLoading && <Loading what="the newest refusals" />}
      {refusals.data && (
        <section class="card" aria-labelledby="refusals-title">
          <header>
            <h2 id="refusals-title">Refusals, the newest first</h2>
            <span class="dim">
              {count(rows.length, "refusal")} among the newest 5,000 events; the command below lists all
            </span>
          </header>
          {rows.length > 0 ? (
            <Table rows={rows} />
          ) : (
            <p class="pad dim">No control refused a command of {of.name} among its newest 5,000 events. The receipt of an accepted command is on the page of its intent.</p>
          )}
        </section>
      )}
      <Code title="The same as a command" texts={commandsOf(of.id)} />
    </>
  );
}

export default function ReceiptsScreen() {
  const of = shownAccount();
  return (
    <section class="screen receipts" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Receipts</h1>
          {of && <p class="dim">Why each command of {of.name} was accepted or refused, and the proof that no record was changed. Choose another account above.</p>}
        </div>
      </div>
      {of ? <Content of={of} key={of.id} /> : <NoAccount />}
    </section>
  );
}
