import { useMemo } from "preact/hooks";
import { api, type Schemas, take } from "../../api/api";
import { useReading } from "../../api/reading";
import type { ScreenProps } from "../../shell/screens";
import { href } from "../../shell/router";
import { accountName } from "../../shell/session";
import { grouped, price } from "../../text/decimal";
import { full } from "../../text/time";
import { plain, timeInForce } from "../../text/words";
import { Code } from "../../ui/Code";
import { Loading, Problem } from "../../ui/Common";
import { Copy } from "../../ui/Copy";
import { Side, StateChip } from "../../ui/State";
import { receiptCommands, submitCommands } from "../intent/commands";
import { refusalSentence } from "../intent/sentence";
import { ReceiptCard } from "./ReceiptCard";

function readReceipt(account_id: string, receipt_id: string, signal: AbortSignal) {
  const params = { path: { account_id, receipt_id } };
  return take(api.GET("/v1/accounts/{account_id}/receipts/{receipt_id}", { params, signal }));
}

function Title({ command }: { command: Schemas["Command"] }) {
  const { order_side, quantity, symbol, order_type, limit_price, stop_price, time_in_force, action_type } = command;
  return (
    <h1 id="title">
      {action_type !== "CREATE" && <span>{action_type} </span>}
      {order_side && <Side side={order_side} />} {quantity && grouped(quantity)} {symbol}{" "}
      <span class="dim">
        {order_type && plain(order_type)} {stop_price && `stop ${price(stop_price)}`} {limit_price && price(limit_price)}{" "}
        {time_in_force && timeInForce(time_in_force)}
      </span>
    </h1>
  );
}

function commandsOf(
  { account_id, receipt: { command } }: Schemas["StoredReceipt"],
  key: string,
): Record<string, string> | undefined {
  const { action_type, symbol, order_side: side, order_type: type, quantity, time_in_force } = command;
  if (action_type !== "CREATE" || !symbol || !side || !type || !quantity || !time_in_force) return undefined;
  const prices = { limit: command.limit_price, stop: command.stop_price };
  return submitCommands({ account: account_id, symbol, side, type, quantity, timeInForce: time_in_force, key, ...prices });
}

export default function Receipt({ params }: ScreenProps) {
  const { account = "", receipt = "" } = params;
  const key = useMemo(() => crypto.randomUUID(), []);
  const { data, failure, again } = useReading(receipt, (signal) => readReceipt(account, receipt, signal));
  if (failure) return <Problem title="This receipt cannot be shown" failure={failure} again={again} />;
  if (!data) return <Loading what="the receipt" />;
  const isRefusal = data.verdict === "REFUSED";
  const sentence = refusalSentence(data.receipt);
  const submit = commandsOf(data, key);
  return (
    <section class="screen" aria-labelledby="title">
      <div class="head">
        <div>
          <Title command={data.receipt.command} />
          <p class="dim">
            {data.refusal_no !== undefined && `Refusal ${data.refusal_no.toLocaleString("en-US")} of `}
            {accountName(data.account_id)} · {full(data.created_at)} · <span class="mono">{data.id}</span>{" "}
            <Copy text={data.id} label="Copy the id of the receipt" />
          </p>
        </div>
        <span class="grow" />
        {isRefusal && <StateChip state="REFUSED" big />}
      </div>
      {isRefusal && <p class={`sentence ${sentence.tone}`}>{sentence.text}</p>}
      {data.intent_id && (
        <p>
          <a href={href(`/accounts/${data.account_id}/intents/${data.intent_id}`)}>The intent of this command</a>
        </p>
      )}
      <div class="columns">
        <div>
          <ReceiptCard receipt={data} />
        </div>
        <aside>
          <Code title="Read this receipt" texts={receiptCommands(data.account_id, data.id)} />
          {submit && <Code title="Submit another" texts={submit} />}
        </aside>
      </div>
    </section>
  );
}
