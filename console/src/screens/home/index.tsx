import type { Row } from "../../live/rows";
import { href } from "../../shell/router";
import { accounts, me, openAccounts, account as chosen } from "../../shell/session";
import { count } from "../../text/words";
import { Loading, Problem } from "../../ui/Common";
import { Newest } from "../../ui/Newest";
import { useScreen } from "../../ui/screen";
import { Mark } from "../../ui/State";
import { now } from "../../ui/Time";
import { Accounts } from "./Accounts";
import { FILL_MINUTES } from "./counts";
import { type Home, useHome } from "./data";
import { First } from "./First";
import { headline, type Item, verdictOf } from "./verdict";
import "./home.css";

const HOUR = 3_600_000;
const NEWEST = 6;

const MARKS = { doubt: "UNKNOWN", stop: "REFUSED", bad: "FAILED", note: "SKIPPED" } as const;
const LEVEL_WORDS = { doubt: "In doubt", stop: "Stopped", bad: "Broken", note: "To know" } as const;

function Verdict({ items, open, missing }: { items: readonly Item[]; open: number; missing: readonly string[] }) {
  const worst = items[0]?.level ?? "well";
  return (
    <section class={`card verdict is-${worst}`} aria-labelledby="verdict">
      <h2 id="verdict" aria-live="polite">
        {worst === "well" || worst === "note" ? <Mark state="FILLED" /> : <Mark state={MARKS[worst]} />}
        {headline(items, open)}
      </h2>
      <ul>
        {items.map(({ level, text, to, link }) => (
          <li key={text} class={`level-${level}`}>
            <span class="level">{LEVEL_WORDS[level]}</span>
            <span class="what">{text}</span>
            <a href={href(to)}>{link}</a>
          </li>
        ))}
        {missing.map((text) => (
          <li key={text} class="level-note">
            <span class="level">Not read</span>
            <span class="what">{text}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Refusals of the last hour by rule, the most frequent first. */
function refusalsByRule(rows: readonly Row[], time: number): [string, number][] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    if (row.state !== "REFUSED" || time - Date.parse(row.at) > HOUR) continue;
    const codes = row.isRefusal ? (row.reason ?? "").split(", ") : [row.reason?.split(":")[0] ?? "BROKER_REFUSED"];
    for (const code of codes) counts.set(code, (counts.get(code) ?? 0) + 1);
  }
  return [...counts].sort(([, a], [, b]) => b - a);
}

const WIDTH = 300;
const HEIGHT = 54;

function Fills({ home }: { home: Home }) {
  void home.version.value;
  const counts = home.fills.byMinute(now.value);
  const most = Math.max(4, ...counts);
  const step = WIDTH / FILL_MINUTES;
  const lastMinute = home.fills.lastMinute(now.value);
  return (
    <section class="card figure" aria-labelledby="fills-title">
      <h2 id="fills-title">Fills a minute</h2>
      <p class="big">{lastMinute.toLocaleString("en-US")}</p>
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label={`Fills of the last ${FILL_MINUTES} minutes: ${counts.join(", ")}`}>
        <path class="base" d={`M0 ${HEIGHT - 0.5}H${WIDTH}`} />
        {counts.map((each, at) => {
          const high = (each / most) * (HEIGHT - 4);
          return each ? <rect key={at} x={at * step} y={HEIGHT - high} width={step - 3} height={high} rx="1.5" /> : null;
        })}
      </svg>
      <p class="dim">in the last minute; the bars are {FILL_MINUTES} minutes</p>
    </section>
  );
}

function Refusals({ refusals }: { refusals: readonly (readonly [string, number])[] }) {
  const total = refusals.reduce((sum, [, number]) => sum + number, 0);
  const most = refusals[0]?.[1] ?? 1;
  return (
    <section class="card figure" aria-labelledby="refusals-title">
      <h2 id="refusals-title">Refused, by rule</h2>
      <p class="big">{total.toLocaleString("en-US")}</p>
      {total === 0 && <p class="dim">No command was refused in the last hour.</p>}
      <dl class="rules">
        {refusals.slice(0, 4).map(([code, number]) => (
          <div key={code}>
            <dt>
              <code>{code}</code>
            </dt>
            <dd>
              <svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">
                <rect width={(number / most) * 100} height="6" />
              </svg>
              <b>{number}</b>
            </dd>
          </div>
        ))}
      </dl>
      {total > 0 && <p class="dim">in the last hour</p>}
    </section>
  );
}

export default function HomeScreen() {
  const { home, books } = useHome();
  void home.version.value;
  const { base, unknown } = books;
  void unknown.version.value;
  void base.version.value;
  const isReady = home.hasLoaded.value && (base.hasLoaded.value || !!base.failure.value) && !!me.value;
  const isFailed = !!home.failure.value && !home.hasLoaded.value;
  useScreen("home", isReady || isFailed);
  if (isFailed || !isReady) {
    return (
      <section class="screen home" aria-labelledby="title">
        <h1 id="title">Home</h1>
        {isFailed && home.failure.value && <Problem failure={home.failure.value} again={() => void home.load()} />}
        {!isFailed && <Loading what="the accounts, the orders in doubt, the halts and the webhooks" />}
      </section>
    );
  }
  const doubts = unknown.rows.filter(({ state }) => state === "UNKNOWN");
  const refusals = refusalsByRule(base.rows, now.value);
  const items = verdictOf({
    accounts: accounts.value,
    overviews: home.overviews,
    unknown: doubts.map(({ at }) => at).sort(),
    switches: home.switches,
    webhooks: home.webhooks,
    refusals,
    now: now.value,
  });
  const byAccount = new Map<string, number>();
  for (const { account } of doubts) byAccount.set(account, (byAccount.get(account) ?? 0) + 1);
  const shown = chosen.value ? [chosen.value] : openAccounts.value;
  return (
    <section class="screen home" aria-labelledby="title">
      <h1 id="title">Home</h1>
      <Verdict items={items} open={openAccounts.value.length} missing={home.missing.value} />
      {base.rows.length === 0 && base.isComplete && <First />}
      <div class="figures">
        <Fills home={home} />
        <Refusals refusals={refusals} />
        <Newest book={base} most={NEWEST} withAccount={openAccounts.value.length > 1} all="/orders" />
      </div>
      {shown.length > 0 && <Accounts accounts={shown} home={home} unknown={byAccount} />}
      <p class="dim">{count(openAccounts.value.length, "open account")}. Counts change with every event; nothing is polled.</p>
    </section>
  );
}
