/** One key reaches everything: screens, accounts, and the id of an intent or a receipt. */
import { signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { client, type Failure, failureOf } from "../api/api";
import { Dialog } from "../ui/Dialog";
import { Keys } from "./Keys";
import { go } from "./router";
import { SCREENS } from "./screens";
import { account, accountName, accounts, openAccounts, signOut, withAccount } from "./session";
import { THEMES, theme } from "./theme";

/** The text in the palette; undefined while it is closed. */
export const palette = signal<string | undefined>(undefined);

export const openPalette = (): void => {
  palette.value = "";
};
const close = (): void => {
  palette.value = undefined;
};

interface Found {
  words: string;
  detail?: string;
  act: () => void;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const RESULTS_MAX = 12;
// An id can be of any account: this many are looked into.
const ACCOUNTS_ASKED_MAX = 20;

/** Open the intent or the receipt of an id, in whichever account it is. Throws if there is none. */
async function openId(id: string): Promise<void> {
  for await (const order of client.orders({ intent_id: id })) {
    return go(`/accounts/${order.account_id}/intents/${id}`);
  }
  const chosen = account.value;
  const asked = (chosen ? [chosen] : openAccounts.value).slice(0, ACCOUNTS_ASKED_MAX);
  const found = await Promise.any(
    asked.map(async ({ id: account_id }) => {
      const params = { path: { account_id, receipt_id: id } };
      await client.take(client.api.GET("/v1/accounts/{account_id}/receipts/{receipt_id}", { params }));
      return account_id;
    }),
  );
  return go(`/accounts/${found}/receipts/${id}`);
}

function commands(): Found[] {
  return [
    ...SCREENS.filter((each) => each.rail).map(({ title, path }) => ({
      words: title,
      detail: "screen",
      act: () => go(withAccount(path)),
    })),
    { words: "All accounts", detail: "account", act: () => go("/orders") },
    ...accounts.value.map(({ id, name, environment }) => ({
      words: name,
      detail: `account, ${environment}`,
      act: () => go(`/orders?account=${id}`),
    })),
    ...THEMES.filter((each) => each !== theme.value).map((each) => ({
      words: `Theme: ${each}`,
      act: () => {
        theme.value = each;
      },
    })),
    {
      words: "Keys of the console",
      act: () => {
        Keys.isOpen.value = true;
      },
    },
    { words: "Sign out", act: () => void signOut() },
    { words: "Sign out everywhere", detail: "ends all your sessions", act: () => void signOut(true) },
  ];
}

function search(text: string, open: (id: string) => void): Found[] {
  const wanted = text.trim().toLowerCase();
  if (UUID.test(wanted)) {
    const known = accounts.value.some((each) => each.id === wanted);
    if (known) return [{ words: accountName(wanted), detail: "account", act: () => go(`/orders?account=${wanted}`) }];
    return [{ words: "Open this id", detail: "intent or receipt", act: () => open(wanted) }];
  }
  const found = commands().filter(({ words }) => words.toLowerCase().includes(wanted));
  const symbol = /^[a-z0-9.\-/:_]{1,32}$/.test(wanted) ? wanted.toUpperCase() : "";
  if (symbol) {
    const act = () => go(withAccount(`/orders?symbol=${encodeURIComponent(symbol)}`));
    found.push({ words: `Orders of ${symbol}`, detail: "blotter", act });
  }
  return found.slice(0, RESULTS_MAX);
}

export function Palette() {
  const picked = useSignal(0);
  const failure = useSignal<Failure | undefined>(undefined);
  const box = useRef<HTMLInputElement>(null);
  const text = palette.value ?? "";
  useEffect(() => box.current?.focus(), []);
  const open = (id: string) => {
    openId(id).then(close, (error: unknown) => {
      failure.value =
        error instanceof AggregateError
          ? { detail: "No intent or receipt of your accounts has this id.", remedy: "Check that it is complete." }
          : failureOf(error);
    });
  };
  const found = search(text, open);
  const run = (at: number) => {
    const chosen = found[at];
    if (!chosen) return;
    const isSearch = chosen.words === "Open this id";
    chosen.act();
    if (!isSearch) close();
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") picked.value = Math.min(found.length - 1, picked.value + 1);
    else if (event.key === "ArrowUp") picked.value = Math.max(0, picked.value - 1);
    else if (event.key === "Enter") run(picked.value);
    else return;
    event.preventDefault();
  };
  return (
    <Dialog title="Search" onClose={close}>
      <input
        ref={box}
        class="field palette-text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-results"
        aria-activedescendant={found.length ? `palette-${picked.value}` : undefined}
        aria-label="Search: a screen, an account, a symbol, or an id"
        placeholder="Screen, account, symbol, or the id of an intent"
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          palette.value = event.currentTarget.value;
          picked.value = 0;
          failure.value = undefined;
        }}
        onKeyDown={pressed}
      />
      {failure.value && (
        <p class="palette-failure" role="alert">
          {failure.value.detail} {failure.value.remedy}
        </p>
      )}
      <ul class="palette-results" id="palette-results" role="listbox" aria-label="Results">
        {found.map(({ words, detail }, at) => (
          <li
            key={words + detail}
            id={`palette-${at}`}
            role="option"
            aria-selected={at === picked.value}
            onClick={() => run(at)}
          >
            {words} {detail && <span class="dim">{detail}</span>}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
