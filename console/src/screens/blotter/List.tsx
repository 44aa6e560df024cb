/** The rows that can be seen, of up to thousands: moved by keys and by scrolling, and steady while rows are added. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { placeOf } from "../../live/book";
import type { Row } from "../../live/rows";
import { isTyping } from "../../shell/Frame";
import { accountName } from "../../shell/session";
import { isPhone } from "../../ui/layout";
import { Line } from "./Line";

// The heights of .line in blotter.css.
const LINE = 30;
const PHONE_LINE = 60;
const MARGIN = 10;
const COLUMNS: readonly [string, string][] = [
  ["time", "Time (UTC)"],
  ["state", "State"],
  ["symbol", "Symbol"],
  ["side", "Side"],
  ["filled", "Filled"],
  ["type", "Type"],
  ["limit", "Limit"],
  ["average", "Average"],
  ["account", "Account"],
  ["reason", "Reason"],
];

interface Props {
  rows: readonly Row[];
  total: number | undefined;
  withAccount: boolean;
  selected: ReadonlySet<string>;
  canSelect: (row: Row) => boolean;
  onOpen: (row: Row) => void;
  onSelect: (row: Row) => void;
  /** The end of the rows is near. */
  onEnd: () => void;
  isBusy: boolean;
  empty: ComponentChildren;
  end: ComponentChildren;
}

const headHeight = (list: Element): number => (list.firstElementChild as HTMLElement | null)?.offsetHeight ?? 0;

function steps(key: string, page: number): number | undefined {
  const known: Record<string, number> = {
    ArrowDown: 1,
    j: 1,
    ArrowUp: -1,
    k: -1,
    PageDown: page,
    PageUp: -page,
    Home: Number.NEGATIVE_INFINITY,
    End: Number.POSITIVE_INFINITY,
  };
  return known[key];
}

/** Keep the first row that can be seen where it is while rows come before it. */
function useSteady(box: RefObject<HTMLDivElement | null>, rows: readonly Row[], high: number, onMove: () => void) {
  const anchor = useRef<{ id: string; offset: number } | undefined>(undefined);
  useLayoutEffect(() => {
    const { current } = box;
    const kept = anchor.current;
    if (!current || !kept || current.scrollTop < high) return;
    const top = placeOf(rows, kept.id) * high + kept.offset;
    if (Math.abs(top - current.scrollTop) >= 1) {
      current.scrollTop = top;
      onMove();
    }
  }, [rows]);
  return (top: number) => {
    const row = rows[Math.floor(top / high)];
    anchor.current = row && { id: row.id, offset: top % high };
  };
}

/** The keys work wherever the focus is, but in fields and on buttons. */
function useKeys(act: (event: KeyboardEvent) => void): void {
  const latest = useRef(act);
  latest.current = act;
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (isTyping(event) || event.ctrlKey || event.metaKey || event.altKey) return;
      if (document.querySelector("dialog[open]")) return;
      latest.current(event);
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function Head({ withAccount }: { withAccount: boolean }) {
  return (
    <div role="rowgroup" class="list-head">
      <div role="row" class="line" aria-rowindex={1}>
        <span role="columnheader" class="c-select">
          <span class="hidden-text">Selected</span>
        </span>
        {COLUMNS.filter(([name]) => withAccount || name !== "account").map(([name, title]) => (
          <span role="columnheader" key={name} class={`c-${name}`}>
            {title}
          </span>
        ))}
      </div>
    </div>
  );
}

/** The height that the rows have. The head stays above them. */
function useHeight(box: RefObject<HTMLDivElement | null>): number {
  const height = useSignal(600);
  useEffect(() => {
    const { current: element } = box;
    if (!element) return undefined;
    const observer = new ResizeObserver(() => {
      height.value = element.clientHeight - headHeight(element);
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  return height.value;
}

/** The current row, by its id, so that it stays while rows come before it. */
function useCurrent(box: RefObject<HTMLDivElement | null>, rows: readonly Row[], high: number, height: number) {
  const current = useSignal<string | undefined>(undefined);
  // Keys may come faster than the list is drawn.
  const now = (): number => {
    const place = current.value === undefined ? -1 : placeOf(rows, current.value);
    return rows[place]?.id === current.value ? place : Math.min(place, rows.length - 1);
  };
  const move = (step: number) => {
    const at = now();
    const next = Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + step));
    current.value = rows[next]?.id;
    const { current: element } = box;
    if (!element) return;
    const y = next * high;
    if (y < element.scrollTop) element.scrollTop = y;
    else if (y + high > element.scrollTop + height) element.scrollTop = y + high - height;
  };
  return { at: now(), now, move, choose: (row: Row) => (current.value = row.id) };
}

export function List(props: Props) {
  const { rows, withAccount, onOpen, onSelect, onEnd } = props;
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const high = isPhone.value ? PHONE_LINE : LINE;
  const height = useHeight(box);
  const { at, now, move, choose } = useCurrent(box, rows, high, height);
  const keep = useSteady(box, rows, high, () => {
    top.value = box.current?.scrollTop ?? 0;
  });
  const first = Math.max(0, Math.floor(top.value / high) - MARGIN);
  const last = Math.min(rows.length, Math.ceil((top.value + height) / high) + MARGIN);
  useEffect(() => {
    if (last >= rows.length - 2 * MARGIN) onEnd();
  });
  useKeys((event) => {
    const isOnControl = (event.target as Element).closest("a, button");
    const step = steps(event.key, Math.max(1, Math.floor(height / high) - 1));
    const row = rows[now()];
    if (step !== undefined) move(step);
    else if (event.key === "Enter" && row && !isOnControl) onOpen(row);
    else if (event.key === "x" && row) onSelect(row);
    else return;
    event.preventDefault();
  });
  const clicked = (event: MouseEvent) => {
    const target = event.target as Element;
    const id = target.closest<HTMLElement>("[data-id]")?.dataset.id;
    const row = id === undefined ? undefined : rows[placeOf(rows, id)];
    if (!row || row.id !== id || event.defaultPrevented) return;
    choose(row);
    if (target.closest("[data-select]")) onSelect(row);
    else if (!target.closest("a") && !getSelection()?.toString()) onOpen(row);
  };
  return (
    <div
      class={`list${withAccount ? " with-account" : ""}`}
      ref={box}
      role="grid"
      tabIndex={0}
      aria-label="Orders. Arrow keys move, Enter opens, x selects"
      aria-rowcount={(props.total ?? rows.length) + 1}
      aria-busy={props.isBusy}
      aria-multiselectable="true"
      aria-activedescendant={at >= first && at < last && rows[at] ? `row-${rows[at].id}` : undefined}
      onClick={clicked}
      onScroll={(event) => {
        top.value = event.currentTarget.scrollTop;
        keep(top.value);
      }}
    >
      <Head withAccount={withAccount} />
      <Rows {...props} first={first} last={last} at={at} high={high} />
    </div>
  );
}

interface RowsProps extends Props {
  first: number;
  last: number;
  at: number;
  high: number;
}

function Rows({ rows, first, last, at, high, ...props }: RowsProps) {
  const { selected, canSelect, withAccount, empty, end } = props;
  if (!rows.length) {
    return (
      <div role="rowgroup">
        <div role="row">
          <div role="gridcell">{empty}</div>
        </div>
      </div>
    );
  }
  return (
    <>
      <div role="rowgroup" class="list-body" style={{ height: rows.length * high }}>
        <div role="presentation" style={{ transform: `translateY(${first * high}px)` }}>
          {rows.slice(first, last).map((row, offset) => (
            <Line
              key={row.id}
              row={row}
              at={first + offset}
              isCurrent={first + offset === at}
              isSelected={selected.has(row.id)}
              canSelect={canSelect(row)}
              account={withAccount ? accountName(row.account) : undefined}
            />
          ))}
        </div>
      </div>
      <div role="rowgroup" class="list-end">
        <div role="row">
          <div role="gridcell">{end}</div>
        </div>
      </div>
    </>
  );
}
