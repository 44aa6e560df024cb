import type { Schemas } from "../../api/api";
import { href } from "../../shell/router";
import { isNegative, isZero, price, sum } from "../../text/decimal";
import { Money, Quantity } from "../../ui/Number";
import { Time } from "../../ui/Time";

function Gain({ value }: { value: string | undefined }) {
  if (value === undefined) return <span class="dim">–</span>;
  const isDown = isNegative(value);
  return (
    <span class={isZero(value) ? undefined : isDown ? "bad-text" : "good-text"} data-exact={value}>
      {isZero(value) ? "" : isDown ? "▾ " : "▴ "}
      {price(value)}
    </span>
  );
}

const SOURCES: Record<string, string> = {
  BROKER: "the broker's own, plus executions since",
  EXECUTIONS: "executions only; the broker's own were never taken over",
};

const COLUMNS = ["Quantity", "Average cost", "Price", "Market value", "Unrealised", "Realised", "Fees"];

export function Positions({ of, account }: { of: Schemas["Positions"]; account: string }) {
  const open = of.data.filter(({ quantity, realized }) => !isZero(quantity) || (realized && !isZero(realized)));
  const groups = [...Map.groupBy(open, ({ currency }) => currency ?? "")];
  const total = (rows: readonly Schemas["Position"][], name: "market_value" | "unrealized" | "realized" | "fees") =>
    sum(rows.flatMap((row) => row[name] ?? []));
  return (
    <section class="card" aria-labelledby="positions-title">
      <header>
        <h2 id="positions-title">Positions</h2>
        <span class="dim">
          Source: {SOURCES[of.source] ?? of.source}
          {of.as_of && (
            <>
              {" "}
              at <Time at={of.as_of} />
            </>
          )}{" "}
          · as of event #{of.account_seq.toLocaleString("en-US")}
        </span>
      </header>
      {open.length === 0 ? (
        <p class="pad dim">The account holds nothing.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of positions">
          <table class="cards-on-phone">
            <thead>
              <tr>
                <th scope="col">Symbol</th>
                {COLUMNS.map((name) => (
                  <th key={name} scope="col" class="right">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            {groups.map(([currency, rows]) => (
              <tbody key={currency}>
                {rows.map((row) => (
                  <tr key={row.symbol} data-id={row.symbol}>
                    <th scope="row" class="wide">
                      <a href={href(`/orders?account=${account}&symbol=${encodeURIComponent(row.symbol)}`)}>{row.symbol}</a>
                    </th>
                    <td class="right" data-name="Quantity">
                      <Quantity value={row.quantity} />
                    </td>
                    <td class="right" data-name="Average cost">
                      <Money value={row.average_cost} />
                    </td>
                    <td class="right" data-name="Price">
                      <Money value={row.market_price} />
                    </td>
                    <td class="right" data-name="Market value">
                      <Money value={row.market_value} />
                    </td>
                    <td class="right" data-name="Unrealised">
                      <Gain value={row.unrealized} />
                    </td>
                    <td class="right" data-name="Realised">
                      <Gain value={row.realized} />
                      {!row.profit_complete && <span title="A price, a cost or a fee is not known">*</span>}
                    </td>
                    <td class="right" data-name="Fees">
                      <Money value={row.fees} />
                    </td>
                  </tr>
                ))}
                <tr class="total">
                  <th scope="row" class="wide">
                    All {currency}
                  </th>
                  <td colSpan={3} class="not-on-phone" />
                  <td class="right" data-name="Market value">
                    {price(total(rows, "market_value"))}
                  </td>
                  <td class="right" data-name="Unrealised">
                    <Gain value={total(rows, "unrealized")} />
                  </td>
                  <td class="right" data-name="Realised">
                    <Gain value={total(rows, "realized")} />
                  </td>
                  <td class="right" data-name="Fees">
                    {price(total(rows, "fees"))}
                  </td>
                </tr>
              </tbody>
            ))}
          </table>
        </div>
      )}
      {!of.complete && <p class="pad dim">Not every price or cost is known yet; what is not known is left out. Read again in a few seconds.</p>}
    </section>
  );
}
