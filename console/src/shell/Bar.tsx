import bell from "../bell.svg";
import { lamp, positions } from "../live/live";
import { plain } from "../text/words";
import { Icon } from "../ui/Icon";
import { openPalette } from "./Palette";
import { go, href, path, query, setQuery } from "./router";
import { account, me, openAccounts, withAccount } from "./session";
import { THEMES, theme } from "./theme";

const LAMPS = {
  connecting: ["connecting", "The page connects to the event stream."],
  live: ["live", "Every change is shown as it happens."],
  cut: ["cut", "The stream is cut. What is shown stays; the stream resumes where it was, without a gap."],
  "signed-out": ["signed out", "Sign in again; the stream resumes where it was."],
} as const;

function choose(id: string): void {
  // A page about one account is left for the list of the other.
  if (path.value.startsWith("/accounts/")) go(`/orders${id && `?account=${id}`}`);
  else setQuery({ account: id, ...(query.value.has("next") && { next: undefined }) });
}

function AccountChoice() {
  const chosen = account.value?.id ?? "";
  return (
    <label class="account-choice">
      <span class="hidden-text">Account</span>
      <select class="field" value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
        <option value="">All accounts</option>
        {openAccounts.value.map((each) => (
          <option key={each.id} value={each.id}>
            {each.name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The environments of what is shown. */
export function environments(): string[] {
  const shown = account.value ? [account.value] : openAccounts.value;
  return [...new Set(shown.map((each) => each.environment))].sort();
}

function Lamp() {
  const state = lamp.value;
  const [word, meaning] = LAMPS[state];
  const chosen = account.value?.id;
  const seen = [...positions.value.entries()];
  const [, seq] = seen.find(([id]) => id === chosen) ?? (chosen ? [] : (seen.at(-1) ?? []));
  return (
    <span class={`lamp is-${state}`} role="status" title={meaning}>
      <i aria-hidden="true" />
      {word}
      {seq !== undefined && (
        <span class="dim lamp-seq" title="The account_seq of the last event">
          {" "}
          #{seq.toLocaleString("en-US")}
        </span>
      )}
      {state === "cut" && <span class="dim lamp-seq"> · resumes</span>}
    </span>
  );
}

function ThemeButton() {
  const next = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
  const icons = {
    system: "M3 4h14v9H3zM7 17h6M10 13v4",
    light: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7ZM10 2v1.5M10 16.5V18M2 10h1.5M16.5 10H18M4.3 4.3l1 1M14.7 14.7l1 1M15.7 4.3l-1 1M5.3 14.7l-1 1",
    dark: "M16 11.5A6.5 6.5 0 0 1 8.5 4a6.5 6.5 0 1 0 7.5 7.5Z",
  };
  return (
    <button
      type="button"
      class="button icon-button theme-button"
      aria-label={`Theme: ${theme.value}. Change to ${next}`}
      title={`Theme: ${theme.value}`}
      onClick={() => {
        theme.value = next;
      }}
    >
      <Icon d={icons[theme.value]} />
    </button>
  );
}

export function Bar() {
  const kinds = environments();
  return (
    <header class={`bar${kinds.includes("live") ? " is-live" : ""}`}>
      <a class="brand" href={href(withAccount("/"))} aria-label="Openbell, first page">
        <img src={bell} alt="" width="22" height="22" />
        <span>Openbell</span>
      </a>
      <span class="dim organization">{me.value?.organization?.name}</span>
      <AccountChoice />
      {kinds.map((kind) => (
        <span key={kind} class={`environment is-${kind}`}>
          {kind}
        </span>
      ))}
      {account.value && (
        <span class="dim session-state" title="The state of the account at the executors">
          {account.value.broker} · {plain(account.value.session_status)}
        </span>
      )}
      <span class="grow" />
      <Lamp />
      <button type="button" class="button search-button" onClick={openPalette} aria-label="Search, Ctrl K">
        <Icon d="M9 4a5 5 0 1 0 0 10A5 5 0 0 0 9 4Zm3.7 8.7L17 17" />
        <span>Search</span> <kbd>Ctrl K</kbd>
      </button>
      <ThemeButton />
      <a class="button stop" href={href(withAccount("/halt"))}>
        Halt
      </a>
    </header>
  );
}
