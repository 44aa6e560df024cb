import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";

const SHOWN_MILLIS = 1500;

/** Copies the text exactly. */
export function Copy({ text, label, children }: { text: string; label: string; children?: ComponentChildren }) {
  const shown = useSignal("");
  const copy = async () => {
    const written = await navigator.clipboard.writeText(text).then(
      () => "Copied",
      () => "Not copied",
    );
    shown.value = written;
    setTimeout(() => {
      shown.value = "";
    }, SHOWN_MILLIS);
  };
  return (
    <button type="button" class="button small" aria-label={shown.value || label} title={label} onClick={copy}>
      {shown.value || (children ?? "Copy")}
    </button>
  );
}
