import { useEffect, useRef } from "preact/hooks";
import { type Listener, listen, type StreamEvent } from "./live";

/** Listen while the screen is open; the newest functions are called. */
export function useLive(listener: Listener): void {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(
    () => listen({ events: (events) => latest.current.events(events), begun: () => latest.current.begun?.() }),
    [],
  );
}

const PAUSE_MILLIS = 1000;

/** Calls `act` after events, at most once in a pause, and once more after the last call. */
export function useAfterEvents(act: () => void, pauseMillis = PAUSE_MILLIS): () => void {
  const latest = useRef(act);
  latest.current = act;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, pauseMillis);
  };
}

/**
 * Call `act` after events that matter, and when the stream begins anew, at most once in a pause, so that a burst of
 * events costs one reading.
 */
export function useEvents(matters: (event: StreamEvent) => boolean, act: () => void, pauseMillis = 300): void {
  const soon = useAfterEvents(act, pauseMillis);
  useLive({
    events: (events) => {
      if (events.some(matters)) soon();
    },
    begun: soon,
  });
}

/** Whether a rule, a switch or the state of an account changed. */
export const changesControls = ({ type }: StreamEvent): boolean =>
  type === "CONTROL_CHANGED" || type === "ACCOUNT_CHANGED";

/** Whether an order or a command changed. */
export const changesOrders = ({ type }: StreamEvent): boolean =>
  type === "BROKER_ORDER" || type === "INTENT_ACTION" || type === "EXTERNAL_ORDER";
