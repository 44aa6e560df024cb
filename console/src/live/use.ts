import { useEffect, useRef } from "preact/hooks";
import { type Listener, listen } from "./live";

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

/** Calls `act` after events, at most once a second, and once more after the last call. */
export function useAfterEvents(act: () => void): () => void {
  const latest = useRef(act);
  latest.current = act;
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  useEffect(() => () => clearTimeout(timer.current), []);
  return () => {
    timer.current ??= setTimeout(() => {
      timer.current = undefined;
      latest.current();
    }, PAUSE_MILLIS);
  };
}
