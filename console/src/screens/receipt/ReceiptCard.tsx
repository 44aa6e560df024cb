import type { Schemas } from "@openbell/client";
import { full } from "../../text/time";
import { plain } from "../../text/words";
import { Copy } from "../../ui/Copy";
import { comparisonWord, judgementOf, roomOf, valueText } from "./lines";
import "./receipt.css";

type Finding = Schemas["Finding"];

function Room({ rule }: { rule: Finding }) {
  const room = roomOf(rule);
  if (!room) return null;
  const isOver = room.part > 1000;
  // Past 100 %, the bar shows where the limit was.
  const scale = isOver ? 1000 / room.part : 1;
  return (
    <span class={`room${isOver ? " over" : ""}`}>
      <svg viewBox="0 0 1000 6" preserveAspectRatio="none" aria-hidden="true">
        <rect class="empty" width="1000" height="6" />
        <rect class="used" width={Math.min(1000, room.part)} height="6" />
        {isOver && <rect class="limit" x={1000 * scale - 8} width="16" height="6" />}
      </svg>
      {room.text}
    </span>
  );
}

function Line({ rule, exempt }: { rule: Finding; exempt: string | undefined }) {
  const judged = judgementOf(rule, exempt);
  const inputs = Object.entries(rule.inputs ?? {});
  return (
    <tr class={judged.tone === "bad" ? "refused" : undefined}>
      <td>
        <b class="nowrap">{rule.code}</b>
        {rule.control_version !== null && <span class="dim"> v{rule.control_version}</span>}
        {rule.mode === "SHADOW" && <span class="pill shadow">shadow</span>}
        <span class="dim below">{plain(rule.scope)}</span>
      </td>
      <td class="right" data-name="Limit">
        <span class="dim">{comparisonWord(rule.comparison)}</span> {valueText(rule.limit)}
      </td>
      <td class="right" data-name="Observed">
        {rule.missing === undefined ? valueText(rule.observed) : <span class="dim">missing</span>}
      </td>
      <td data-name="Room">
        <Room rule={rule} />
      </td>
      <td>
        <span class={`pill ${judged.tone}`}>{judged.word}</span>
        {rule.would_pass && <span class="below">What would pass: {rule.would_pass}</span>}
        {inputs.length > 0 && (
          <span class="dim below">Computed from {inputs.map(([name, value]) => `${plain(name)} ${value}`).join(", ")}</span>
        )}
      </td>
    </tr>
  );
}

const VERDICTS: Record<string, [string, string]> = {
  PASSED: ["passed", "good"],
  REFUSED: ["refused", "bad"],
  WOULD_REFUSE: ["passed; shadow rules would refuse", "unknown"],
  EXCEEDED: ["passed, exempt", "unknown"],
};

/** One receipt with every rule that applied. */
export function ReceiptCard({ receipt: stored }: { receipt: Schemas["StoredReceipt"] }) {
  const { receipt, gate, seq, hash, text, id, created_at } = stored;
  const [word, tone] = VERDICTS[stored.verdict] ?? [plain(stored.verdict), ""];
  const title = gate === "DOOR" ? "Judged at the door, before it was sent" : "Judged when it was submitted";
  const ofCommand = seq === undefined ? "" : ` · command ${seq}, ${receipt.command.action_type}`;
  return (
    <section class="card receipt">
      <header>
        <h2>{title}</h2>
        <span class="dim">
          <time dateTime={created_at}>{full(created_at)}</time>
          {ofCommand}
        </span>
        <span class="grow" />
        <span class={`pill ${tone}`}>{word}</span>
      </header>
      {receipt.exempt && (
        <p class="pad dim">The command is exempt from rules that limit risk: {plain(receipt.exempt)}.</p>
      )}
      {receipt.rules.length === 0 ? (
        <p class="pad dim">No rule applied to this command.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label={`Rules: ${title}`}>
          <table>
            <thead>
              <tr>
                <th>Rule</th>
                <th class="right">Limit</th>
                <th class="right">Observed</th>
                <th>Room</th>
                <th>Verdict</th>
              </tr>
            </thead>
            <tbody>
              {receipt.rules.map((rule, at) => (
                <Line key={at} rule={rule} exempt={receipt.exempt} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      <footer class="dim">
        <span class="mono" title={`${id}, SHA-256 ${hash}`}>
          {id} · SHA-256 {hash.slice(0, 16)}…
        </span>
        <span class="grow" />
        <Copy text={text} label="Copy receipt, byte for byte">
          Copy receipt
        </Copy>
        <Copy text={hash} label="Copy hash of the receipt">
          Copy hash
        </Copy>
      </footer>
    </section>
  );
}
