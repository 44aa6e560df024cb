import type { Account } from "../shell/session";
import type { CanTrade } from "../text/accounts";

/** The name of an account in a table of accounts, with what follows a click. */
export function AccountName({ of, href, isCurrent }: { of: Account; href: string; isCurrent?: boolean }) {
  return (
    <th scope="row" class="wide">
      <a href={href} aria-current={isCurrent ? "true" : undefined}>
        {of.name}
      </a>{" "}
      <span class={`environment is-${of.environment}`}>{of.environment}</span>
    </th>
  );
}

/** Whether it can trade, with the reason. */
export function AccountState({ may }: { may: CanTrade }) {
  return (
    <td class="wide">
      <b class={may.isGood ? "good-text" : "bad-text"}>
        {may.isGood ? "✓" : "✕"} {may.word}
      </b>{" "}
      <span class="dim">{may.sentence}</span>
    </td>
  );
}
