import { useSignal } from "@preact/signals";
import type { Schemas } from "../../api/api";
import { price, sum } from "../../text/decimal";
import { Chart } from "./Chart";

type Day = Schemas["Profit"];

function Table({ days }: { days: readonly Day[] }) {
  return (
    <div class="scroll profit-table" tabIndex={0} role="region" aria-label="Profit by day">
      <table>
        <thead>
          <tr>
            <th scope="col">Day</th>
            <th scope="col" class="right">
              Realised
            </th>
            <th scope="col" class="right">
              Fees
            </th>
            <th scope="col" class="right">
              Bought
            </th>
            <th scope="col" class="right">
              Sold
            </th>
            <th scope="col" class="right">
              Trades
            </th>
          </tr>
        </thead>
        <tbody>
          {days.toReversed().map((each) => (
            <tr key={each.day}>
              <th scope="row" class="nowrap">
                {each.day}
              </th>
              <td class="right">
                {price(each.realized)}
                {!each.profit_complete && <span title="A price, a cost or a fee of this day is not known">*</span>}
              </td>
              <td class="right">{price(each.fees)}</td>
              <td class="right">{price(each.bought_value)}</td>
              <td class="right">{price(each.sold_value)}</td>
              <td class="right">{each.trades.toLocaleString("en-US")}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** One chart for each currency: money of different currencies is never added. */
export function Profit({ days }: { days: readonly Day[] }) {
  const asTable = useSignal(false);
  const groups = [...Map.groupBy(days, ({ currency }) => currency ?? "")];
  return (
    <section class="card" aria-labelledby="profit-title">
      <header>
        <h2 id="profit-title">Profit by day, before fees, last 30 days</h2>
        <span class="grow" />
        <div class="choice" role="group" aria-label="Shown as">
          {[false, true].map((table) => (
            <button type="button" key={String(table)} class="button small" aria-pressed={asTable.value === table} onClick={() => (asTable.value = table)}>
              {table ? "Table" : "Chart"}
            </button>
          ))}
        </div>
      </header>
      {days.length === 0 && <p class="pad dim">No trade in the last 30 days.</p>}
      {groups.map(([currency, of]) => (
        <div key={currency}>
          <p class="pad">
            <b>{price(sum(of.map(({ realized }) => realized)))}</b> {currency} realised in {of.length} {of.length === 1 ? "day" : "days"} with trades,{" "}
            {price(sum(of.map(({ fees }) => fees)))} fees
            {of.some(({ profit_complete }) => !profit_complete) && (
              <span class="dim"> · * a price, a cost or a fee is not known, so the sum lacks it</span>
            )}
          </p>
          {asTable.value ? <Table days={of} /> : <Chart days={of} />}
        </div>
      ))}
    </section>
  );
}
