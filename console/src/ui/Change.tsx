/** Changes: who may make one, and what became of it. */
import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { type Failure, failureOf } from "../api/api";
import { can, denial, me } from "../shell/session";

interface Outcome {
  isBusy: boolean;
  failure: Failure | undefined;
  /** What was done, in words. */
  done: string;
}

export interface Change extends Outcome {
  /** Make the change; true if it was made. What was typed is kept by the caller unless it was. */
  run: (act: () => Promise<string>, failed?: (failure: Failure) => void) => Promise<boolean>;
  clear: () => void;
}

const NOTHING: Outcome = { isBusy: false, failure: undefined, done: "" };

export function useChange(): Change {
  const state = useSignal<Outcome>(NOTHING);
  const run: Change["run"] = async (act, failed) => {
    if (state.peek().isBusy) return false;
    state.value = { ...NOTHING, isBusy: true };
    try {
      state.value = { ...NOTHING, done: await act() };
      return true;
    } catch (error) {
      const failure = failureOf(error);
      state.value = { ...NOTHING, failure };
      failed?.(failure);
      return false;
    }
  };
  return { ...state.value, run, clear: () => (state.value = NOTHING) };
}

interface ButtonProps {
  /** Of GET /v1/me. */
  operation: string;
  class?: string;
  isBusy?: boolean;
  /** Why it cannot be pressed now, though it is allowed. */
  disabled?: boolean;
  /** Without it the button submits its form. */
  onClick?: () => void;
  children: ComponentChildren;
}

/** A button that changes something. Put a `Denied` beside it. */
export function ChangeButton({ operation, onClick, children, isBusy, disabled, class: kind = "button" }: ButtonProps) {
  return (
    <button
      type={onClick ? "button" : "submit"}
      class={kind}
      data-operation={operation}
      disabled={isBusy || disabled || !can(operation)}
      onClick={onClick}
    >
      {children}
    </button>
  );
}

/** A sentence that says who may, if the user may not. */
export function Denied({ operation, what, also }: { operation: string; what: string; also?: string }) {
  if (!me.value || can(operation)) return null;
  return (
    <p class="denied">
      {denial(operation, what)} {also}
    </p>
  );
}
