import { useEffect, useMemo } from "preact/hooks";
import { client, type Schemas } from "../../api/api";
import { useReading } from "../../api/reading";
import { Book } from "../../live/book";
import { useAfterEvents, useLive } from "../../live/use";
import type { Account } from "../../shell/session";
import { OPEN_STATES } from "../../text/words";
import { Loading, Problem } from "../../ui/Common";
import { Code } from "../../ui/Code";
import { Money } from "../../ui/Number";
import { NoAccount, shownAccount } from "../../ui/OneAccount";
import { useScreen } from "../../ui/screen";
import { Time } from "../../ui/Time";
import { sourceOf } from "../blotter/source";
import { Exposures } from "./Exposures";
import { Positions } from "./Positions";
import { Profit } from "./Profit";
import "./money.css";

const WORKING_MAX = 1000;

async function readMoney(id: string, signal: AbortSignal) {
  const readDays = async () => {
    const found: Schemas["Profit"][] = [];
    for await (const day of client.profit(id, { group_by: "DAY", order: "asc", signal })) found.push(day);
    return found;
  };
  const [balances, positions, days] = await Promise.all([
    client.balances(id, { signal }),
    client.positions(id, { signal }),
    readDays(),
  ]);
  return { balances, positions, days };
}

function useWorking(id: string): Book {
  const book = useMemo(
    () => new Book(sourceOf({ account: id, symbol: "", side: "", states: new Set() }, { status: "WORKING" }, false), (act) => requestAnimationFrame(act)),
    [id],
  );
  useEffect(() => void book.load(), [book]);
  useLive({ events: (events) => void book.apply(events, performance.now()), begun: () => void book.load() });
  const mayBeMore = book.hasLoaded.value && !book.isComplete && !book.failure.value && book.rows.length < WORKING_MAX;
  useEffect(() => {
    if (mayBeMore) void book.older();
  }, [book.version.value, mayBeMore]);
  return book;
}

const AMOUNTS = [
  ["cash", "Cash"],
  ["equity", "Equity"],
  ["buying_power", "Buying power"],
  ["initial_margin", "Initial margin"],
  ["maintenance_margin", "Maintenance margin"],
] as const;

function Balances({ of, again }: { of: Schemas["Balances"]; again: () => void }) {
  return (
    <section class="card" aria-labelledby="balances-title">
      <header>
        <h2 id="balances-title">Balances {of.currency}</h2>
        <span class="dim">
          {of.as_of ? (
            <>
              as {of.broker} reported them at <Time at={of.as_of} />
            </>
          ) : (
            "not read yet: the broker is asked now, and the first balances appear here by themselves"
          )}
        </span>
        <span class="grow" />
        <button type="button" class="button small" onClick={again}>
          Read again
        </button>
      </header>
      <dl class="amounts">
        {AMOUNTS.map(([name, title]) => (
          <div key={name} class={name.endsWith("margin") ? "small" : undefined}>
            <dt>{title}</dt>
            <dd>
              <Money value={of[name]} />
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

function commands(id: string): Record<string, string> {
  return {
    CLI: `openbell balances --account ${id}\nopenbell positions list --account ${id}\nopenbell positions profit --by DAY --account ${id}`,
    Python: `from openbell import Client\n\nwith Client(account_id="${id}") as client:\n    for position in client.positions():\n        print(position.symbol, position.quantity, position.unrealized)\n    for row in client.profit(group_by="DAY"):\n        print(row.day, row.currency, row.realized)`,
    TypeScript: `console.log((await client.positions("${id}")).data);\nfor await (const row of client.profit("${id}", { group_by: "DAY" })) console.log(row.day, row.realized);`,
    curl: `curl "$OPENBELL_URL/v1/accounts/${id}/positions" -H "x-api-key: $OPENBELL_API_KEY"`,
  };
}

function Content({ of }: { of: Account }) {
  const money = useReading(of.id, (signal) => readMoney(of.id, signal));
  const book = useWorking(of.id);
  const changed = useAfterEvents(money.again);
  useLive({
    events: (events) => {
      const mine = events.filter(({ account_id }) => account_id === of.id);
      if (mine.some((each) => each.broker_trade || each.position_adjusted || each.balances_changed || each.external_order)) changed();
    },
    begun: money.again,
  });
  void book.version.value;
  useScreen("money", !!money.data || !!money.failure);
  const working = book.rows.filter(({ state }) => OPEN_STATES.has(state));
  if (!money.data) return money.failure ? <Problem failure={money.failure} again={money.again} /> : <Loading what="balances, positions and profit" />;
  const { balances, positions, days } = money.data;
  return (
    <>
      {money.failure && <Problem failure={money.failure} again={money.again} />}
      {book.failure.value && <Problem failure={book.failure.value} again={() => void book.load()} />}
      <Balances of={balances} again={money.again} />
      <Positions of={positions} account={of.id} />
      <Exposures positions={positions.data} working={working} base={of.base_currency} />
      <Profit days={days} />
      <Code title="The same as a command" texts={commands(of.id)} />
    </>
  );
}

export default function MoneyScreen() {
  const of = shownAccount();
  return (
    <section class="screen money" aria-labelledby="title">
      <div class="head">
        <div>
          <h1 id="title">Money</h1>
          {of && <p class="dim">{of.name}. Choose another account above.</p>}
        </div>
      </div>
      {of ? <Content of={of} key={of.id} /> : <NoAccount />}
    </section>
  );
}
