import type { Signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { isTyping } from "../../shell/Frame";
import { setQuery } from "../../shell/router";
import { denial } from "../../shell/session";
import { count } from "../../text/words";
import { Action } from "../../ui/Common";
import { type Filters, hasFilters } from "./filters";



function SymbolField({ symbol, typed }: { symbol: string; typed: Signal<string | undefined> }) {
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== "/" || isTyping(event)) return;
      event.preventDefault();
      field.current?.select();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const commit = () => {
    const text = field.current?.value.trim() ?? "";
    typed.value = undefined;
    setQuery({ symbol: text.toUpperCase() });
  };
  return (
    <label class="symbol-field">
      <span class="hidden-text">Symbol; Enter looks among all orders</span>
      <input
        ref={field}
        class="field"
        type="search"
        placeholder="Symbol"
        autocomplete="off"
        spellcheck={false}
        maxLength={32}
        value={typed.value ?? symbol}
        onInput={(event) => {
          typed.value = event.currentTarget.value.toUpperCase();
          if (!typed.value) commit();
        }}
        onBlur={() => typed.value !== undefined && commit()}
        onKeyDown={(event) => {
          if (event.key === "Enter") commit();
          if (event.key !== "Escape") return;
          // The browser would empty the field, and leave the filter.
          event.preventDefault();
          typed.value = undefined;
          field.current?.blur();
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </label>
  );
}

const SIDES = [
  ["", "All"],
  ["buy", "Buy"],
  ["sell", "Sell"],
  ["sell_short", "Short"],
] as const;

function cancelDenial(chosen: number): string {
  return denial("CANCEL_ORDERS", "cancel orders") || (chosen ? "" : "Select open orders first: the box of a row, or x.");
}

interface Props {
  filters: Filters;
  /** The text in the symbol field before it is a filter. */
  typed: Signal<string | undefined>;
  isPaused: boolean;
  waiting: number;
  onPause: () => void;
  onClear: () => void;
  selected: number;
  onCancel: () => void;
}

export function Toolbar({ filters, typed, isPaused, waiting, onPause, onClear, selected, onCancel }: Props) {
  return (
    <div class="filters">
      <SymbolField symbol={filters.symbol} typed={typed} />
      <div class="choice" role="group" aria-label="Side">
        {SIDES.map(([side, word]) => (
          <button
            type="button"
            key={side}
            class="button"
            aria-pressed={filters.side.toLowerCase() === side}
            onClick={() => setQuery({ side })}
          >
            {word}
          </button>
        ))}
      </div>
      <button type="button" class="button pause" aria-pressed={isPaused} onClick={onPause}>
        {isPaused ? `Go on · ${waiting.toLocaleString("en-US")} waiting` : "Pause"}
      </button>
      {(hasFilters(filters) || typed.value) && (
        <button type="button" class="button" onClick={onClear}>
          Clear filters
        </button>
      )}
      <span class="grow" />
      <span class="dim hint">
        <kbd>j</kbd> <kbd>k</kbd> move · <kbd>↵</kbd> open · <kbd>x</kbd> select
      </span>
      <span class={selected > 0 ? "cancel" : "cancel none-selected"}>
        <Action operation="CANCEL_ORDERS" denied={cancelDenial(selected)} onClick={onCancel}>
          Cancel {selected > 0 ? count(selected, "order") : "selected"}
        </Action>
      </span>
    </div>
  );
}
