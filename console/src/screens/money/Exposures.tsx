import { compare, price, thousandths } from "../../text/decimal";
import { type Exposure, exposures, largest, totals, worstLong, worstShort } from "./exposure";

const HALF = 500;

/** Shorts to the left, longs to the right; what working orders add is lighter. */
function Bar({ of, most }: { of: Exposure; most: string }) {
  const length = (value: string) => ((thousandths(value, most, 1000) ?? 0) * HALF) / 1000;
  const [long, short] = [length(of.long), length(of.short)];
  const [maxLong, maxShort] = [length(worstLong(of)), length(worstShort(of))];
  return (
    <svg class="exposure-bar" viewBox={`0 0 ${HALF * 2} 16`} preserveAspectRatio="none" aria-hidden="true">
      <rect class="long light" x={HALF} width={maxLong} y="2" height="12" />
      <rect class="short light" x={HALF - maxShort} width={maxShort} y="2" height="12" />
      <rect class="long" x={HALF} width={long} y="2" height="12" />
      <rect class="short" x={HALF - short} width={short} y="2" height="12" />
      <path d={`M${HALF} 0V16`} />
    </svg>
  );
}

type Input = Parameters<typeof exposures>;

export function Exposures({ positions, working, base }: { positions: Input[0]; working: Input[1]; base: string }) {
  const all = exposures(positions, working, base);
  const most = all.map(largest).reduce((a, b) => (compare(a, b) > 0 ? a : b), "0");
  return (
    <section class="card" aria-labelledby="exposure-title">
      <header>
        <h2 id="exposure-title">Exposure by symbol</h2>
        <span class="dim">lighter: if every working order of that side fills and none of the other</span>
      </header>
      {all.length === 0 ? (
        <p class="pad dim">No position and no working order.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Table of exposure">
          <table class="exposure cards-on-phone">
            <thead>
              <tr>
                <th scope="col">Symbol</th>
                <th scope="col" class="right">
                  Short
                </th>
                <th scope="col">
                  <span class="hidden-text">Bar: short to the left, long to the right</span>
                </th>
                <th scope="col" class="right">
                  Long
                </th>
                <th scope="col" class="right">
                  Worst case
                </th>
              </tr>
            </thead>
            <tbody>
              {all.map((each) => (
                <tr key={each.symbol}>
                  <th scope="row" class="wide">
                    {each.symbol} {each.currency !== base && <span class="dim">{each.currency}</span>}
                  </th>
                  <td class="right" data-name="Short">
                    {price(each.short)}
                  </td>
                  <td class="bar-cell wide">
                    <Bar of={each} most={most} />
                  </td>
                  <td class="right" data-name="Long">
                    {price(each.long)}
                  </td>
                  <td class="right wide" data-name="Worst case, short to long">
                    {price(worstShort(each))} to {price(worstLong(each))}
                    {each.lacksPrice && <span class="bad-text"> without what has no price</span>}
                  </td>
                </tr>
              ))}
            </tbody>
            <tfoot>
              {totals(all).map(({ currency, long, short, worstLong: maxLong, worstShort: maxShort }) => (
                <tr key={currency}>
                  <th scope="row" class="wide">
                    All {currency}
                  </th>
                  <td class="right" data-name="Short">
                    <b>{price(short)}</b>
                  </td>
                  <td class="not-on-phone" />
                  <td class="right" data-name="Long">
                    <b>{price(long)}</b>
                  </td>
                  <td class="right wide" data-name="Worst case, short to long">
                    {price(maxShort)} to {price(maxLong)}
                  </td>
                </tr>
              ))}
            </tfoot>
          </table>
        </div>
      )}
    </section>
  );
}
