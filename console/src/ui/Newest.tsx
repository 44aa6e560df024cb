/** The newest orders and refusals of a book, each with its state and its reason. */
import type { Book } from "../live/book";
import { accountName } from "../shell/session";
import { href } from "../shell/router";
import { grouped } from "../text/decimal";
import { Problem } from "./Common";
import { Side, StateChip } from "./State";
import { Ago } from "./Time";

interface Props {
  book: Book;
  most: number;
  withAccount?: boolean;
  /** The address of all of them. */
  all: string;
}

export function Newest({ book, most, withAccount = false, all }: Props) {
  void book.version.value;
  return (
    <section class="card" aria-labelledby="newest-title">
      <header>
        <h2 id="newest-title">Newest orders and refusals</h2>
        <span class="grow" />
        <a href={href(all)}>All in the blotter</a>
      </header>
      {book.failure.value && <Problem failure={book.failure.value} again={() => void book.load()} />}
      {book.hasLoaded.value && book.rows.length === 0 && <p class="note-line dim">No order was submitted yet.</p>}
      <ul class="newest">
        {book.rows.slice(0, most).map((row) => (
          <li key={row.id} data-id={row.id} data-state={row.state}>
            <StateChip state={row.state} />
            <a href={href(`/accounts/${row.account}/${row.isRefusal ? "receipts" : "intents"}/${row.id}`)}>
              <Side side={row.side} /> {grouped(row.quantity)} <b>{row.symbol}</b>
            </a>
            {withAccount && <span class="dim of-account">{accountName(row.account)}</span>}
            <span class="why">{row.reason}</span>
            <Ago at={row.at} />
          </li>
        ))}
      </ul>
    </section>
  );
}
