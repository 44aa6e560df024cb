/** Reads data for a screen: loading, then the data or a failure with a retry. */
import { type Signal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Failure, failureOf, signedOut } from "./api";

export interface Reading<Data> {
  data: Data | undefined;
  failure: Failure | undefined;
  isLoading: boolean;
  /** Read again; what was read before stays until the new data is there. */
  again: () => void;
}

/**
 * Read when the screen opens, when `key` changes, and after a new sign-in if the reading failed.
 * `read` gets a signal that ends when the screen closes.
 */
export function useReading<Data>(key: string, read: (signal: AbortSignal) => Promise<Data>): Reading<Data> {
  const state: Signal<Omit<Reading<Data>, "again">> = useSignal({
    data: undefined,
    failure: undefined,
    isLoading: true,
  } as Omit<Reading<Data>, "again">);
  const round = useSignal(0);
  const readKey = useRef<string | undefined>(undefined);
  const isSignedOut = signedOut.value;
  useEffect(() => {
    if (isSignedOut) return undefined;
    const ended = new AbortController();
    const kept = readKey.current === key ? state.peek().data : undefined;
    state.value = { data: kept, failure: undefined, isLoading: true };
    read(ended.signal).then(
      (data) => {
        if (ended.signal.aborted) return;
        readKey.current = key;
        state.value = { data, failure: undefined, isLoading: false };
      },
      (error: unknown) => {
        if (ended.signal.aborted) return;
        state.value = { data: kept, failure: failureOf(error), isLoading: false };
      },
    );
    return () => ended.abort();
  }, [key, round.value, isSignedOut]);
  return { ...state.value, again: () => round.value++ };
}
