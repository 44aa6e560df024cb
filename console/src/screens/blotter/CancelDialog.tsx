import { useSignal } from "@preact/signals";
import { type Failure, failureOf } from "../../api/api";
import type { Row } from "../../live/rows";
import { accountName } from "../../shell/session";
import { grouped } from "../../text/decimal";
import { count } from "../../text/words";
import { Problem } from "../../ui/Common";
import { Dialog } from "../../ui/Dialog";
import { Side, StateChip } from "../../ui/State";
import { cancelOrders } from "./source";

/** What the dialog shows of an order. */
export type Canceled = Pick<Row, "id" | "account" | "state" | "side" | "quantity" | "symbol">;

/** As many as the API takes in one call. */
const AT_ONCE = 100;

function inParts(ids: string[]): string[][] {
  return Array.from({ length: Math.ceil(ids.length / AT_ONCE) }, (_, at) => ids.slice(at * AT_ONCE, (at + 1) * AT_ONCE));
}

/** Lists what would be cancelled, asks once, and shows what became of each. */
export function CancelDialog({ rows, onClose }: { rows: readonly Canceled[]; onClose: () => void }) {
  const outcomes = useSignal<ReadonlyMap<string, string>>(new Map());
  const failure = useSignal<Failure | undefined>(undefined);
  const isSending = useSignal(false);
  const isSent = useSignal(false);
  const send = async () => {
    isSending.value = true;
    failure.value = undefined;
    try {
      for (const [account, of] of Map.groupBy(rows, (row) => row.account)) {
        const left = of.map(({ id }) => id).filter((id) => !outcomes.value.has(id));
        for (const ids of inParts(left)) {
          const results = await cancelOrders(account, ids);
          const known = new Map(outcomes.value);
          for (const { intent_id, code, detail } of results) {
            known.set(intent_id, code ? `not recorded: ${detail ?? code}` : "cancel recorded");
          }
          outcomes.value = known;
        }
      }
      isSent.value = true;
    } catch (error) {
      failure.value = failureOf(error);
    }
    isSending.value = false;
  };
  const accounts = new Set(rows.map((row) => row.account));
  const footer = (
    <>
      <button type="button" class="button" onClick={onClose}>
        {isSent.value ? "Close" : "Keep them"}
      </button>
      {!isSent.value && (
        <button type="button" class="button stop" disabled={isSending.value} onClick={() => void send()}>
          {isSending.value ? "Recording…" : `Cancel ${count(rows.length, "order")}`}
        </button>
      )}
    </>
  );
  return (
    <Dialog title={`Cancel ${count(rows.length, "order")}?`} onClose={onClose} footer={footer}>
      <p class="dim">
        Openbell records a cancel for each and sends it to the broker. An order can still fill before the broker takes
        its cancel; the blotter shows what becomes of it.
      </p>
      <div class="cancel-list" tabIndex={0} role="region" aria-label="Orders to cancel">
        <table>
          <tbody>
            {rows.map((row) => (
              <tr key={row.id}>
                <td>
                  <StateChip state={row.state} />
                </td>
                <td class="nowrap">
                  <Side side={row.side} /> {grouped(row.quantity)} <b>{row.symbol}</b>
                </td>
                {accounts.size > 1 && <td class="dim">{accountName(row.account)}</td>}
                <td>{outcomes.value.get(row.id) ?? ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {failure.value && <Problem failure={failure.value} again={() => void send()} />}
    </Dialog>
  );
}
