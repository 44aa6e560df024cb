import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { ChangeButton, Denied, useChange } from "./Change";
import { Dialog } from "./Dialog";
import { Field } from "./Field";
import { Outcome } from "./Outcome";

interface Props {
  title: string;
  operation: string;
  /** "close accounts", for the reason why it is not allowed. */
  what: string;
  /** The text that has to be typed; without it one click is enough. */
  name?: string;
  word: string;
  act: () => Promise<string>;
  onClose: (isDone: boolean) => void;
  children: ComponentChildren;
}

/** Asks once before a change that cannot be taken back, and shows its outcome. */
export function Confirm({ title, operation, what, name, word, act, onClose, children }: Props) {
  const typed = useSignal("");
  const change = useChange();
  const isDone = !!change.done;
  return (
    <Dialog title={title} onClose={() => onClose(isDone)}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          if (!isDone && (name === undefined || typed.value === name)) void change.run(act);
        }}
      >
        {children}
        {name !== undefined && !isDone && <Field label={`Type ${name}`} value={typed} />}
        <Outcome of={change} />
        <Denied operation={operation} what={what} />
        <div class="dialog-footer">
          <button type="button" class="button" onClick={() => onClose(isDone)}>
            {isDone ? "Close" : "Keep it"}
          </button>
          {!isDone && (
            <ChangeButton operation={operation} class="button stop" isBusy={change.isBusy} disabled={name !== undefined && typed.value !== name}>
              {word}
            </ChangeButton>
          )}
        </div>
      </form>
    </Dialog>
  );
}
