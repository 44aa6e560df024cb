import { useEffect, useMemo } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { Book } from "../../live/book";
import type { Row } from "../../live/rows";
import { useLive } from "../../live/use";
import { href } from "../../shell/router";
import { account, accountName, me } from "../../shell/session";
import { grouped } from "../../text/decimal";
import { count } from "../../text/words";
import { Loading, Problem } from "../../ui/Common";
import { useScreen } from "../../ui/screen";
import { Side, StateChip } from "../../ui/State";
import { addressOf } from "../blotter/Line";
import { sourceOf } from "../blotter/source";
import { Doubt } from "./Doubt";
import "./unknown.css";

/** Each card reads its evidence: so many at first. */
const SHOWN = 20;
const ALL_MAX = 1000;

function useDoubts(id: string): Book {
  const book = useMemo(() => {
    const source = sourceOf({ account: id, symbol: "", side: "", states: new Set() }, { certainty: "UNKNOWN" }, false);
    return new Book(source, (act) => requestAnimationFrame(act));
  }, [id]);
  useEffect(() => void book.load(), [book]);
  useLive({
    events: (events) => void book.apply(events, performance.now()),
    begun: () => void book.load(),
  });
  const mayBeMore = book.hasLoaded.value && !book.isComplete && !book.failure.value && book.rows.length < ALL_MAX;
  useEffect(() => {
    if (mayBeMore) void book.older();
  }, [book.version.value, mayBeMore]);
  return book;
}

function Settled({ rows }: { rows: readonly Row[] }) {
  if (!rows.length) return null;
  return (
    <section class="card" aria-labelledby="settled">
      <header>
        <h2 id="settled">Settled while this page was open</h2>
      </header>
      <ul class="settled">
        {rows.map((row) => (
          <li key={row.id} data-id={row.id} data-state={row.state}>
            <StateChip state={row.state} />
            <a href={href(addressOf(row))}>
              <Side side={row.side} /> {grouped(row.quantity)} {row.symbol}
            </a>
            <span class="dim">{accountName(row.account)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Nothing() {
  return (
    <section class="card nothing">
      <p>
        <b>Nothing is in doubt.</b>
      </p>
      <p class="dim">
        An order is here if its command was sent, or may have been sent, and no answer shows what the broker did with it.
        Most settle in seconds, because Openbell asks the broker. No timer settles one.
      </p>
    </section>
  );
}

export default function UnknownScreen() {
  const book = useDoubts(account.value?.id ?? "");
  const shown = useSignal(SHOWN);
  const wasUnknown = useMemo(() => new Set<string>(), [book]);
  void book.version.value;
  const isReady = (book.hasLoaded.value || !!book.failure.value) && !!me.value;
  useScreen("unknown", isReady);
  const doubts = book.rows.filter(({ state }) => state === "UNKNOWN").toReversed();
  for (const { id } of doubts) wasUnknown.add(id);
  const settled = book.rows.filter(({ id, state }) => state !== "UNKNOWN" && wasUnknown.has(id));
  return (
    <section class="screen unknown" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Unknown</h1>
          <p class="dim" role="status">
            {book.hasLoaded.value && `${count(doubts.length, "order")} in doubt on ${account.value?.name ?? "all accounts"}, the oldest first`}
          </p>
        </div>
      </div>
      {!isReady && <Loading what="orders in doubt" />}
      {book.failure.value && <Problem failure={book.failure.value} again={() => void book.load()} />}
      {doubts.length > 0 && (
        <p class="advice">
          Count each as open. Do not send the same order again under another key: that is another order. A halt of the
          symbol stops Openbell from sending it again.
        </p>
      )}
      {doubts.slice(0, shown.value).map((row) => (
        <Doubt key={row.id} row={row} />
      ))}
      {doubts.length > shown.value && (
        <p>
          <button type="button" class="button" onClick={() => (shown.value += SHOWN)}>
            Show {Math.min(SHOWN, doubts.length - shown.value)} more of {doubts.length}
          </button>
        </p>
      )}
      {isReady && !book.failure.value && doubts.length === 0 && <Nothing />}
      <Settled rows={settled} />
    </section>
  );
}
