/** Profit by day as bars. Pixels only: the table has the exact digits. */
import type { Schemas } from "../../api/api";
import { price } from "../../text/decimal";

const DAY_MILLIS = 86_400_000;
const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [800, 200, 150, 26, 14];
const WIDEST = 40;

const at = ({ day }: Schemas["Profit"]): number => Date.parse(`${day ?? ""}T00:00:00Z`);

export function Chart({ days }: { days: readonly Schemas["Profit"][] }) {
  const profits = days.map(({ realized }) => Number(realized));
  const [least, most] = [Math.min(0, ...profits), Math.max(0, ...profits)];
  const first = days[0] ? at(days[0]) : 0;
  const count = Math.max(7, ...days.map((each) => (at(each) - first) / DAY_MILLIS + 1));
  const slot = (WIDTH - LEFT) / count;
  const wide = Math.min(WIDEST, slot * 0.7);
  const y = (value: number): number => TOP + ((most - value) / (most - least || 1)) * (HEIGHT - TOP - BOTTOM);
  const label = (value: number): string => days[profits.indexOf(value)]?.realized ?? "0";
  return (
    <svg class="profit-chart" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label="Profit by day as bars; the table has the same numbers">
      {[...new Set([most, 0, least])].map((value) => (
        <g key={value}>
          <line x1={LEFT} x2={WIDTH} y1={y(value)} y2={y(value)} />
          <text x={LEFT - 8} y={y(value) + 4} text-anchor="end">
            {price(value === 0 ? "0" : label(value))}
          </text>
        </g>
      ))}
      {days.map((each, place) => {
        const profit = profits[place] ?? 0;
        const x = LEFT + ((at(each) - first) / DAY_MILLIS) * slot + (slot - wide) / 2;
        return (
          <g key={each.day}>
            <rect class={profit < 0 ? "loss" : "gain"} x={x} width={wide} y={y(Math.max(0, profit))} height={Math.max(1, Math.abs(y(profit) - y(0)))} rx="2" />
            {(place === 0 || place === days.length - 1) && (
              <text x={x + wide / 2} y={HEIGHT - 4} text-anchor="middle">
                {each.day?.slice(5)}
              </text>
            )}
          </g>
        );
      })}
    </svg>
  );
}
