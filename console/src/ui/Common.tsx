/** The states that every screen has: loading, failed, empty, not allowed. */
import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Failure } from "../api/api";
import { Copy } from "./Copy";

/** Says what is read. */
export function Loading({ what }: { what: string }) {
  return (
    <p class="message" role="status">
      <span class="spinner" aria-hidden="true" />
      Reading {what}…
    </p>
  );
}

interface ProblemProps {
  failure: Failure;
  again?: () => void;
  /** The heading of a screen that has nothing else to show. */
  title?: string;
}

/** What happened, what to do, the id of the request, and a retry. */
export function Problem({ failure, again, title }: ProblemProps) {
  return (
    <div class="message problem" role="alert">
      {title && <h1>{title}</h1>}
      <p>
        <b>{failure.detail}</b> {failure.remedy}
      </p>
      <p class="actions">
        {again && (
          <button type="button" class="button small" onClick={again}>
            Try again
          </button>
        )}
        {failure.requestId && (
          <span class="dim">
            Request <code>{failure.requestId}</code> <Copy text={failure.requestId} label="Copy the id of the request" />
          </span>
        )}
      </p>
    </div>
  );
}

/** Says why there is nothing. */
export function Empty({ children }: { children: ComponentChildren }) {
  return <div class="message">{children}</div>;
}

interface ActionProps {
  /** Of GET /v1/me. */
  operation: string;
  /** Why it is not allowed; empty if it is. */
  denied: string;
  onClick: () => void;
  class?: string;
  isBusy?: boolean;
  children: ComponentChildren;
}

/** A button that stays visible if it is not allowed, with the reason. */
export function Action({ operation, denied, onClick, children, isBusy = false, class: kind = "button" }: ActionProps) {
  const id = useId();
  return (
    <span class="action">
      <button
        type="button"
        class={kind}
        data-operation={operation}
        aria-disabled={denied ? "true" : undefined}
        aria-describedby={denied ? id : undefined}
        disabled={isBusy}
        onClick={() => {
          if (!denied) onClick();
        }}
      >
        {children}
      </button>
      {denied && (
        <span class="why" role="tooltip" id={id}>
          {denied}
        </span>
      )}
    </span>
  );
}
