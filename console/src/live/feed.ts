/** Reads the one event stream of this browser: all accounts that the session may follow. */
import { ApiError, type Client, Conflict, EventMissed, NotAuthenticated, type StreamEvent } from "@openbell/client";

export type { StreamEvent };
export type Lamp = "connecting" | "live" | "cut" | "signed-out";

/** What the stream reports to each tab. */
export type Report =
  | { kind: "lamp"; lamp: Lamp }
  /** The stream began anew: events before it may be missing, so what depends on them must be read again. */
  | { kind: "begun" }
  | { kind: "events"; events: StreamEvent[] };

/** What a tab may send. */
export type Request = { kind: "hello"; lock: string } | { kind: "signed-in" };

const FIRST_PAUSE = 250;
const LONGEST_PAUSE = 5_000;
// Events that arrive together are reported together.
const BATCH_MILLIS = 8;
const BATCH_MAX = 500;

export class Feed {
  lamp: Lamp = "connecting";
  hasBegun = false;
  #token: string | undefined;
  /** The last event of each account; after a resume the server may repeat some of the events before it. */
  readonly #last = new Map<string, number>();
  #batch: StreamEvent[] = [];
  #wake: (() => void) | undefined;
  readonly #client: Pick<Client, "events">;
  readonly #report: (report: Report) => void;
  readonly #sleep: (millis: number) => Promise<void>;

  constructor(
    client: Pick<Client, "events">,
    report: (report: Report) => void,
    sleep = (millis: number) => new Promise<void>((resolve) => setTimeout(resolve, millis)),
  ) {
    this.#client = client;
    this.#report = report;
    this.#sleep = sleep;
  }

  /** Follow until the signal ends it. */
  async run(signal?: AbortSignal): Promise<void> {
    for (let failures = 0; !signal?.aborted; ) {
      const isNew = this.#token === undefined;
      let worked = false;
      try {
        const resumeToken = this.#token;
        const onConnection = ({ isOpen, resumeToken: token }: { isOpen: boolean; resumeToken: string | undefined }) => {
          this.#token = token ?? this.#token;
          if (isOpen && isNew && !worked) this.#begin();
          worked ||= isOpen;
          this.#show(isOpen ? "live" : "cut");
        };
        const options = { resumeToken, signal, onConnection, failuresMax: Number.POSITIVE_INFINITY };
        for await (const event of this.#client.events(undefined, options)) this.#add(event);
        return;
      } catch (error) {
        this.#flush();
        failures = worked ? 0 : failures + 1;
        if (error instanceof NotAuthenticated) {
          await this.#untilSignedIn();
          continue;
        }
        // A token that the server refuses, and events that are no longer stored: everything is read again.
        if ((error instanceof Conflict && error.code === "invalid_cursor") || error instanceof EventMissed) {
          this.#token = undefined;
        } else if (error instanceof ApiError && error.status === 400) {
          this.#token = undefined;
        }
        this.#show("cut");
      }
      await this.#sleep(Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** failures) * (0.5 + Math.random() / 2));
    }
  }

  /** Somebody signed in: go on, if the stream waits for it. */
  signedIn(): void {
    this.#wake?.();
  }

  #begin(): void {
    this.hasBegun = true;
    this.#last.clear();
    this.#report({ kind: "begun" });
  }

  #show(lamp: Lamp): void {
    if (lamp === this.lamp) return;
    this.#flush();
    this.lamp = lamp;
    this.#report({ kind: "lamp", lamp });
  }

  async #untilSignedIn(): Promise<void> {
    this.#show("signed-out");
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
    });
    this.#wake = undefined;
    this.#show("connecting");
  }

  #add(event: StreamEvent): void {
    if (event.account_seq <= (this.#last.get(event.account_id) ?? 0)) return;
    this.#last.set(event.account_id, event.account_seq);
    if (!this.#batch.length) setTimeout(() => this.#flush(), BATCH_MILLIS);
    if (this.#batch.push(event) >= BATCH_MAX) this.#flush();
  }

  #flush(): void {
    if (!this.#batch.length) return;
    const events = this.#batch;
    this.#batch = [];
    this.#report({ kind: "events", events });
  }
}
