/** The chart of profit by day. Loaded when it is shown; colours are those of the page's tokens. */
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import type { Schemas } from "@openbell/client";

const DAY_SECONDS = 86_400;

function color(of: HTMLElement, token: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  of.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** Draws `days`, the oldest first, into the box until the returned function is called. */
export function draw(box: HTMLElement, days: readonly Schemas["Profit"][]): () => void {
  const colors = { dim: color(box, "--dim"), line: color(box, "--line"), up: color(box, "--filled"), down: color(box, "--sell") };
  // Pixels only: the table has the exact digits.
  const times = days.map(({ day }) => Date.parse(`${day ?? ""}T00:00:00Z`) / 1000);
  const profits = days.map(({ realized }) => Number(realized));
  const axis = { stroke: colors.dim, grid: { stroke: colors.line, width: 1 }, ticks: { show: false }, font: "11px Inter, system-ui, sans-serif" };
  const bars = (uPlot.paths.bars as NonNullable<typeof uPlot.paths.bars>)({ size: [0.7, 48], radius: 0.1 });
  const series = (fill: string, wanted: (value: number) => boolean) => ({
    data: profits.map((each) => (wanted(each) ? each : null)),
    series: { fill, stroke: fill, width: 0, paths: bars, points: { show: false } },
  });
  const [up, down] = [series(colors.up, (each) => each >= 0), series(colors.down, (each) => each < 0)];
  const first = times[0] ?? 0;
  const chart = new uPlot(
    {
      width: box.clientWidth,
      height: 190,
      legend: { show: false },
      cursor: { show: false },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "UTC"),
      scales: { x: { range: [first - DAY_SECONDS, (times.at(-1) ?? first) + DAY_SECONDS] } },
      axes: [{ ...axis, values: (_, splits) => splits.map((each) => new Date(each * 1000).toISOString().slice(5, 10)), incrs: [1, 2, 5, 7, 14, 30, 60].map((each) => each * DAY_SECONDS) }, { ...axis, size: 74 }],
      series: [{}, up.series, down.series],
    },
    [times, up.data, down.data],
    box,
  );
  const observer = new ResizeObserver(() => chart.setSize({ width: box.clientWidth, height: 190 }));
  observer.observe(box);
  return () => {
    observer.disconnect();
    chart.destroy();
  };
}
