/** One row. It is drawn again only when its order, its place or its marks change. */
import { Component } from "preact";
import { clock, full } from "../../text/time";
import { grouped, price, thousandths } from "../../text/decimal";
import { plain, timeInForce } from "../../text/words";
import type { Row } from "../../live/rows";
import { href } from "../../shell/router";
import { Side, StateChip } from "../../ui/State";
import { Ago } from "../../ui/Time";

export interface LineProps {
  row: Row;
  /** Its number in the list, from 0. */
  at: number;
  isCurrent: boolean;
  isSelected: boolean;
  canSelect: boolean;
  /** The name of its account, where the list has several. */
  account: string | undefined;
}

const FLASH_MILLIS = 900;

/** The address of what the row is about. */
export const addressOf = (row: Row): string =>
  `/accounts/${row.account}/${row.isRefusal ? "receipts" : "intents"}/${row.id}`;

function FilledBar({ row }: { row: Row }) {
  const part = thousandths(row.filled, row.quantity, 1000) ?? 0;
  return (
    <svg class={`filled-bar is-${row.state.toLowerCase()}`} viewBox="0 0 1000 6" preserveAspectRatio="none" aria-hidden="true">
      <rect width="1000" height="6" class="empty" />
      <rect width={part} height="6" />
    </svg>
  );
}

function reasonOf(row: Row): string {
  if (row.pending && row.pending !== "NEW") return `waits for its ${plain(row.pending)}`;
  return row.reason ?? "";
}

export class Line extends Component<LineProps> {
  override shouldComponentUpdate(next: LineProps): boolean {
    const { row, at, isCurrent, isSelected, canSelect, account } = this.props;
    return (
      next.row !== row ||
      next.at !== at ||
      next.isCurrent !== isCurrent ||
      next.isSelected !== isSelected ||
      next.canSelect !== canSelect ||
      next.account !== account
    );
  }

  #classes(): string {
    const { row, isCurrent, isSelected } = this.props;
    const isFresh = row.changes > 0 && performance.now() - row.changedAt < FLASH_MILLIS;
    return [
      "line",
      isCurrent && "current",
      isSelected && "selected",
      row.state === "UNKNOWN" && "in-doubt",
      // Two names of one animation: it begins again with every change.
      isFresh && (row.changes % 2 ? "flash-odd" : "flash-even"),
    ]
      .filter(Boolean)
      .join(" ");
  }

  override render() {
    const { row, at, isSelected, canSelect, account } = this.props;
    const reason = reasonOf(row);
    return (
      <div role="row" id={`row-${row.id}`} data-id={row.id} aria-rowindex={at + 2} aria-selected={isSelected} class={this.#classes()}>
        <span role="gridcell" class="c-select">
          <span class={`box${canSelect ? "" : " none"}`} data-select="" aria-hidden="true">
            {isSelected ? "✓" : ""}
          </span>
        </span>
        <span role="gridcell" class="c-time">
          <time dateTime={row.at} title={full(row.at)}>
            {clock(row.at)}
          </time>{" "}
          <Ago at={row.at} />
        </span>
        <span role="gridcell" class="c-state">
          <StateChip state={row.state} />
        </span>
        <span role="gridcell" class="c-symbol">
          <a href={href(addressOf(row))} tabIndex={-1}>
            {row.symbol}
          </a>
        </span>
        <span role="gridcell" class="c-side">
          <Side side={row.side} />
        </span>
        <span role="gridcell" class="c-filled">
          <span class="amount" title={`${grouped(row.filled)} of ${grouped(row.quantity)}`}>
            {grouped(row.filled)}
            <span class="dim"> / {grouped(row.quantity)}</span>
          </span>
          <FilledBar row={row} />
        </span>
        <span role="gridcell" class="c-type dim">
          {plain(row.type)} {row.timeInForce !== "DAY" && timeInForce(row.timeInForce)}
        </span>
        <span role="gridcell" class="c-limit">
          {row.limit ? price(row.limit) : row.stop ? <span title="stop price">⇥ {price(row.stop)}</span> : ""}
        </span>
        <span role="gridcell" class="c-average">
          {row.average ? price(row.average) : ""}
        </span>
        {account !== undefined && (
          <span role="gridcell" class="c-account dim">
            {account}
          </span>
        )}
        <span role="gridcell" class="c-reason" title={reason}>
          {reason}
        </span>
      </div>
    );
  }
}
