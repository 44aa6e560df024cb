import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { ROWS_MAX } from "../../live/book";
import type { Row } from "../../live/rows";
import { isTyping } from "../../shell/Frame";
import { go, query, setQuery } from "../../shell/router";
import { account, denial, me, openAccounts } from "../../shell/session";
import { count, OPEN_STATES } from "../../text/words";
import { Action, Loading, Problem } from "../../ui/Common";
import { Books } from "./books";
import { CancelDialog } from "./CancelDialog";
import { EmptyList } from "./EmptyList";
import { type Filters, filtersOf, hasFilters, isShown } from "./filters";
import { addressOf } from "./Line";
import { List } from "./List";
import { REFUSAL_ACCOUNTS_MAX } from "./source";
import { FillsChart, Tiles } from "./Tiles";
import "./blotter.css";

/** How many pages are read on their own for rows that match; then a person decides. */
const SEARCH_PAGES = 5;

function useBooks(filters: Filters): Books {
  const { account: id, symbol, side } = filters;
  const books = useMemo(() => new Books(filters), [id, symbol, side]);
  useEffect(() => {
    books.start();
    return () => books.stop();
  }, [books]);
  return books;
}

function SymbolField({ symbol, typed }: { symbol: string; typed: { value: string | undefined } }) {
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
          else if (event.key === "Escape") field.current?.blur();
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

/** Pause by button or key. */
function usePause(books: Books): [boolean, () => void] {
  const isPaused = books.waiting.value !== undefined;
  const toggle = () => books.pause(books.waiting.peek() === undefined);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.key !== "p" || isTyping(event) || event.ctrlKey || event.metaKey) return;
      toggle();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [books]);
  return [isPaused, toggle];
}

/** The rows that match; while paused those of the moment of the pause. */
function useRows(books: Books, filters: Filters, typed: string | undefined) {
  const book = books.of(filters);
  const source = book.hasLoaded.value ? book : books.base;
  const version = source.version.value;
  const isPaused = books.waiting.value !== undefined;
  const held = useRef<{ rows: Row[]; of: unknown } | undefined>(undefined);
  if (!isPaused) held.current = undefined;
  else if (held.current?.of !== source) held.current = { rows: source.rows.slice(), of: source };
  const all = held.current?.rows ?? source.rows;
  const states = [...filters.states].join();
  const rows = useMemo(
    () => all.filter((row) => isShown(row, filters) && (!typed || row.symbol.startsWith(typed))),
    [all, version, states, typed],
  );
  return { book: source, asked: book, rows };
}

function Ended({ book, onMore }: { book: ReturnType<typeof useRows>["book"]; onMore: () => void }) {
  if (book.failure.value) return <Problem failure={book.failure.value} again={onMore} />;
  if (book.isLoading.value) return <Loading what="older orders" />;
  if (book.isCapped) {
    return (
      <p class="dim">
        The newest {count(ROWS_MAX, "row")} are kept here. Choose an account, a symbol or a state to look further back.
      </p>
    );
  }
  if (book.isComplete) return <p class="dim">These are all.</p>;
  return (
    <p>
      <button type="button" class="button small" onClick={onMore}>
        Look further back
      </button>
    </p>
  );
}

function useSelection(rows: readonly Row[]) {
  const ids = useSignal<ReadonlySet<string>>(new Set());
  const select = (row: Row) => {
    if (row.isRefusal || !OPEN_STATES.has(row.state)) return;
    const changed = new Set(ids.value);
    if (!changed.delete(row.id)) changed.add(row.id);
    ids.value = changed;
  };
  const chosen = rows.filter((row) => ids.value.has(row.id) && OPEN_STATES.has(row.state));
  return { ids, select, chosen, clear: () => (ids.value = new Set()) };
}

function cancelDenial(chosen: number): string {
  return denial("CANCEL_ORDERS", "cancel orders") || (chosen ? "" : "Select open orders first: the box of a row, or x.");
}

export default function Blotter() {
  const filters = useComputed(() => filtersOf(query.value)).value;
  const books = useBooks(filters);
  const typed = useSignal<string | undefined>(undefined);
  const { book, asked, rows } = useRows(books, filters, typed.value);
  const [isPaused, togglePause] = usePause(books);
  const selection = useSelection(rows);
  const canceling = useSignal<readonly Row[] | undefined>(undefined);
  const searched = useRef({ of: "", pages: 0 });
  const more = () => {
    searched.current.pages = 0;
    void book.older();
  };
  const onEnd = () => {
    const of = `${query.value} ${typed.value} ${rows.length}`;
    if (searched.current.of !== of) searched.current = { of, pages: 0 };
    if (isPaused || book.isLoading.value || searched.current.pages >= SEARCH_PAGES) return;
    searched.current.pages++;
    void book.older();
  };
  const isReading = book.isLoading.value || asked.isLoading.value;
  const clear = () => {
    typed.value = undefined;
    setQuery({ state: undefined, symbol: undefined, side: undefined });
  };
  const denied = cancelDenial(selection.chosen.length);
  const leavesOutRefusals = !filters.account && openAccounts.value.length > REFUSAL_ACCOUNTS_MAX;
  const waiting = books.waiting.value?.size ?? 0;
  return (
    <section class="screen blotter" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Blotter</h1>
          <p class="dim" role="status">
            {count(rows.length, "row")}
            {hasFilters(filters) && " match"}
            {book.isComplete ? "" : ", older ones follow as you scroll"}
            {leavesOutRefusals && ` · older refusals of the first ${REFUSAL_ACCOUNTS_MAX} accounts only`}
          </p>
        </div>
        <span class="grow" />
        <FillsChart fills={books.fills} />
      </div>
      <Tiles book={books.base} unknown={books.unknown} filters={filters} />
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
        <button type="button" class="button pause" aria-pressed={isPaused} onClick={togglePause}>
          {isPaused ? `Go on · ${waiting.toLocaleString("en-US")} waiting` : "Pause"}
        </button>
        {(hasFilters(filters) || typed.value) && (
          <button type="button" class="button" onClick={clear}>
            Clear filters
          </button>
        )}
        <span class="grow" />
        <span class="dim hint">
          <kbd>j</kbd> <kbd>k</kbd> move · <kbd>↵</kbd> open · <kbd>x</kbd> select
        </span>
        <Action denied={denied} onClick={() => (canceling.value = selection.chosen)}>
          Cancel {selection.chosen.length > 0 ? count(selection.chosen.length, "order") : "selected"}
        </Action>
      </div>
      {book.failure.value && rows.length === 0 ? (
        <Problem failure={book.failure.value} again={() => void book.load()} />
      ) : (
        <List
          rows={rows}
          total={book.isComplete ? rows.length : undefined}
          withAccount={!account.value && openAccounts.value.length > 1}
          selected={selection.ids.value}
          canSelect={(row) => !row.isRefusal && OPEN_STATES.has(row.state)}
          onOpen={(row) => go(addressOf(row))}
          onSelect={selection.select}
          onEnd={onEnd}
          isBusy={isReading}
          empty={<EmptyList book={book} isReading={isReading || !me.value} filters={filters} clear={clear} more={more} />}
          end={<Ended book={book} onMore={more} />}
        />
      )}
      {canceling.value && (
        <CancelDialog
          rows={canceling.value}
          onClose={() => {
            canceling.value = undefined;
            selection.clear();
          }}
        />
      )}
    </section>
  );
}
