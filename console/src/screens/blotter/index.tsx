import { useComputed, useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { type Book, ROWS_MAX } from "../../live/book";
import type { Row } from "../../live/rows";
import { isTyping } from "../../shell/Frame";
import { go, query, setQuery } from "../../shell/router";
import { account, me, openAccounts } from "../../shell/session";
import { count, OPEN_STATES } from "../../text/words";
import { Loading, Problem } from "../../ui/Common";
import { Books, type Fills } from "./books";
import { CancelDialog } from "./CancelDialog";
import { EmptyList } from "./EmptyList";
import { type Filters, filtersOf, hasFilters, isShown } from "./filters";
import { addressOf } from "./Line";
import { List } from "./List";
import { REFUSAL_ACCOUNTS_MAX } from "./source";
import { FillsChart, Tiles } from "./Tiles";
import { Toolbar } from "./Toolbar";
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

/** Read more pages while too few rows match, up to SEARCH_PAGES at a place; then a person decides. */
function useSearch(book: ReturnType<typeof useRows>["book"], place: string, isPaused: boolean) {
  const searched = useRef({ place: "", pages: 0 });
  const onMore = () => {
    searched.current.pages = 0;
    void book.older();
  };
  const onEnd = () => {
    if (searched.current.place !== place) searched.current = { place, pages: 0 };
    if (isPaused || book.isLoading.value || searched.current.pages >= SEARCH_PAGES) return;
    searched.current.pages++;
    void book.older();
  };
  return { onMore, onEnd };
}

function Title({ book, rows, filters, fills }: { book: Book; rows: number; filters: Filters; fills: Fills }) {
  const leavesOutRefusals = !filters.account && openAccounts.value.length > REFUSAL_ACCOUNTS_MAX;
  return (
    <div class="head">
      <div>
        <h1 id="title">Blotter</h1>
        <p class="dim" role="status">
          {count(rows, "row")}
          {hasFilters(filters) && " match"}
          {book.isComplete ? "" : ", older ones follow as you scroll"}
          {leavesOutRefusals && ` · older refusals of the first ${REFUSAL_ACCOUNTS_MAX} accounts only`}
        </p>
      </div>
      <span class="grow" />
      <FillsChart fills={fills} />
    </div>
  );
}

export default function Blotter() {
  const filters = useComputed(() => filtersOf(query.value)).value;
  const books = useBooks(filters);
  const typed = useSignal<string | undefined>(undefined);
  const { book, asked, rows } = useRows(books, filters, typed.value);
  const [isPaused, togglePause] = usePause(books);
  const selection = useSelection(rows);
  const canceling = useSignal<readonly Row[] | undefined>(undefined);
  const { onMore, onEnd } = useSearch(book, `${query.value} ${typed.value} ${rows.length}`, isPaused);
  const isReading = book.isLoading.value || asked.isLoading.value;
  const clear = () => {
    typed.value = undefined;
    setQuery({ state: undefined, symbol: undefined, side: undefined });
  };
  return (
    <section class="screen blotter" aria-labelledby="title">
      <Title book={book} rows={rows.length} filters={filters} fills={books.fills} />
      <Tiles book={books.base} unknown={books.unknown} filters={filters} />
      <Toolbar
        filters={filters}
        typed={typed}
        isPaused={isPaused}
        waiting={books.waiting.value?.size ?? 0}
        onPause={togglePause}
        onClear={clear}
        selected={selection.chosen.length}
        onCancel={() => (canceling.value = selection.chosen)}
      />
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
          empty={<EmptyList book={book} isReading={isReading || !me.value} filters={filters} clear={clear} more={onMore} />}
          end={<Ended book={book} onMore={onMore} />}
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
