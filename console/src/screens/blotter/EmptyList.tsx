import type { Book } from "../../live/book";
import { account, openAccounts } from "../../shell/session";
import { sideWord, stateWord } from "../../text/words";
import { Loading } from "../../ui/Common";
import { Copy } from "../../ui/Copy";
import { type Filters, hasFilters } from "./filters";

interface Props {
  book: Book;
  isReading: boolean;
  filters: Filters;
  clear: () => void;
  more: () => void;
}

function wordsOf({ states, symbol, side }: Filters): string {
  const parts = [
    states.size && [...states].map((state) => stateWord(state).toLowerCase()).join(" or "),
    side && sideWord(side).toLowerCase(),
    symbol && `of ${symbol}`,
  ];
  return parts.filter(Boolean).join(", ");
}

function FirstOrder() {
  const of = account.value ?? openAccounts.value[0];
  if (!of) return <p>Your organization has no account yet. An admin opens one.</p>;
  const command = `export OPENBELL_ACCOUNT=${of.id}\nopenbell intents create AAPL BUY 10 --wait`;
  return (
    <>
      <p>
        <b>No order was submitted yet</b> on {account.value ? of.name : "your accounts"}. Submit the first one with an
        API key:
      </p>
      <pre class="code">{command}</pre>
      <Copy text={command} label="Copy the command" />
    </>
  );
}

/** Why there is nothing in the list. */
export function EmptyList({ book, isReading, filters, clear, more }: Props) {
  if (isReading) return <Loading what="orders" />;
  if (!hasFilters(filters)) return <div class="message">{book.rows.length === 0 && <FirstOrder />}</div>;
  const isAll = book.isComplete;
  return (
    <div class="message">
      <p>
        <b>No order matches: {wordsOf(filters)}.</b>{" "}
        {isAll ? "All orders were looked at." : `The newest ${book.rows.length.toLocaleString("en-US")} were looked at.`}
        {filters.symbol && " A symbol is compared as a whole."}
      </p>
      <p class="actions">
        <button type="button" class="button small" onClick={clear}>
          Clear the filters
        </button>
        {!isAll && !book.isCapped && (
          <button type="button" class="button small" onClick={more}>
            Look further back
          </button>
        )}
      </p>
    </div>
  );
}
