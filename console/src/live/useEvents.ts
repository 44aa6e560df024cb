import type { StreamEvent } from "@openbell/client";
import { useEffect, useRef } from "preact/hooks";
import { listen } from "./live";

/**
 * Call `act` after events that matter, and when the stream begins anew: at once, then at most every `pauseMillis`,
 * so that a burst of events costs one reading.
 */
export function useEvents(matters: (event: StreamEvent) => boolean, act: () => void, pauseMillis = 300): void {
  const latest = useRef({ matters, act });
  latest.current = { matters, act };
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const soon = () => {
      timer ??= setTimeout(() => {
        timer = undefined;
        latest.current.act();
      }, pauseMillis);
    };
    const end = listen({
      events: (events) => {
        if (events.some((event) => latest.current.matters(event))) soon();
      },
      begun: soon,
    });
    return () => {
      clearTimeout(timer);
      end();
    };
  }, [pauseMillis]);
}

/** Whether a rule, a switch or the state of an account changed. */
export const changesControls = ({ type }: StreamEvent): boolean =>
  type === "CONTROL_CHANGED" || type === "ACCOUNT_CHANGED";

/** Whether an order or a command changed. */
export const changesOrders = ({ type }: StreamEvent): boolean =>
  type === "BROKER_ORDER" || type === "INTENT_ACTION" || type === "EXTERNAL_ORDER";
