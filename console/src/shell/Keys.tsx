import { signal } from "@preact/signals";
import { Dialog } from "../ui/Dialog";

const KEYS: readonly [string, string][] = [
  ["Ctrl K", "search: screens, accounts, the id of an intent or a receipt"],
  ["/", "filter by symbol"],
  ["j k ↑ ↓", "move in a list"],
  ["↵", "open the row"],
  ["x", "select the row"],
  ["p", "pause the list, or go on"],
  ["Esc", "close, or leave a field"],
  ["?", "this list"],
];

const isOpen = signal(false);

/** The keys of the console. */
export function Keys() {
  const close = () => {
    isOpen.value = false;
  };
  return (
    <Dialog title="Keys" onClose={close}>
      <dl class="keys">
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
Keys.isOpen = isOpen;
