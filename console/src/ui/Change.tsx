/** Buttons that change something: disabled with a visible reason, and the outcome or the failure in words. */
import { type Signal, useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type Failure, failureOf } from "../api/api";
import { can, denial, me } from "../shell/session";
import { Problem } from "./Common";

export interface Changing {
  isBusy: Signal<boolean>;
  outcome: Signal<string>;
  failure: Signal<Failure | undefined>;
  /** True if it succeeded. `act` returns the outcome in words. */
  run: (act: () => Promise<string>) => Promise<boolean>;
}

export function useChange(): Changing {
  const isBusy = useSignal(false);
  const outcome = useSignal("");
  const failure = useSignal<Failure | undefined>(undefined);
  const run = async (act: () => Promise<string>) => {
    if (isBusy.peek()) return false;
    isBusy.value = true;
    outcome.value = "";
    failure.value = undefined;
    try {
      outcome.value = await act();
      return true;
    } catch (error) {
      failure.value = failureOf(error);
      return false;
    } finally {
      isBusy.value = false;
    }
  };
  return { isBusy, outcome, failure, run };
}

/** What became of the last change; nothing before the first. */
export function Outcome({ of }: { of: Changing }) {
  return (
    <div class="outcome" aria-live="polite">
      {of.outcome.value && <p class="good-text">✓ {of.outcome.value}</p>}
      {of.failure.value && <Problem failure={of.failure.value} />}
    </div>
  );
}

/** Why the buttons of a panel are disabled; nothing if they are not. */
export function Denied({ operation, what }: { operation: string; what: string }) {
  if (!me.value || can(operation)) return null;
  return <p class="denied dim">{denial(operation, what)}</p>;
}

interface Props {
  operation: string;
  change: Changing;
  act: () => Promise<string>;
  class?: string;
  /** Why it makes no sense now; empty if it does. The reason is shown by its place. */
  blocked?: boolean;
  label?: string;
  children: ComponentChildren;
}

export function ChangeButton({ operation, change, act, blocked = false, label, children, class: kind = "button" }: Props) {
  return (
    <button
      type="button"
      class={kind}
      data-operation={operation}
      aria-label={label}
      disabled={!can(operation) || change.isBusy.value || blocked}
      onClick={() => void change.run(act)}
    >
      {children}
    </button>
  );
}

/** A button that only opens a form. */
export function OpenForm({ operation, onClick, children, class: kind = "button" }: {
  operation: string;
  onClick: () => void;
  class?: string;
  children: ComponentChildren;
}) {
  return (
    <button type="button" class={kind} data-operation={operation} disabled={!can(operation)} onClick={onClick}>
      {children}
    </button>
  );
}
