import { useReading } from "../../api/reading";
import { Problem } from "../../ui/Common";
import { href, setQuery } from "../../shell/router";
import { grouped } from "../../text/decimal";
import { Code } from "../../ui/Code";
import { Copy } from "../../ui/Copy";
import { Time } from "../../ui/Time";
import { intentOf } from "./filters";
import { type LogEvent, readEvent } from "./log";

function commands({ account_id, resume_token, account_seq }: LogEvent): Record<string, string> {
  return {
    CLI: `openbell events tail --account ${account_id} --from ${resume_token}`,
    Python: `from openbell import Client\n\nwith Client(account_id="${account_id}") as client:\n    for event in client.events(resume_token="${resume_token}"):\n        print(event.account_seq, event.type)`,
    TypeScript: `const options = { resumeToken: "${resume_token}" };\nfor await (const event of client.events("${account_id}", options)) console.log(event.account_seq, event.type);`,
    curl: `curl -N "$OPENBELL_URL/v1/events?account_id=${account_id}" -H "x-api-key: $OPENBELL_API_KEY" \\\n  -H "Accept: text/event-stream" -H "Last-Event-ID: ${resume_token}"  # everything after event ${account_seq}`,
  };
}

/** The whole event as JSON, and how a program goes on after it. */
export function Selected({ event: shown }: { event: LogEvent }) {
  const read = useReading(shown.event_id, async (signal) => (shown.resume_token ? shown : readEvent(shown, signal)));
  const event = read.data ?? shown;
  const json = JSON.stringify(event, null, 2);
  const intent = intentOf(event);
  return (
    <div class="event-detail">
      <section class="card" aria-labelledby="event-title">
        <header>
          <h2 id="event-title">
            #{grouped(String(event.account_seq))} {event.type}
          </h2>
          <Time at={event.occurred_at} day />
        </header>
        {read.failure && <Problem failure={read.failure} again={read.again} />}
        <p class="form-row pad">
          <Copy text={event.resume_token} label={`Copy resume token of event ${event.account_seq}`}>
            Copy resume token
          </Copy>
          <Copy text={json} label="Copy JSON of the event">
            Copy JSON
          </Copy>
          <button type="button" class="button small" onClick={() => setQuery({ from: String(event.account_seq) })}>
            Follow from here
          </button>
          {intent && (
            <>
              <a class="button small" href={href(`/accounts/${event.account_id}/intents/${intent}`)}>
                Open the intent
              </a>
              <button type="button" class="button small" onClick={() => setQuery({ intent })}>
                Only this intent
              </button>
            </>
          )}
        </p>
        <pre class="code event-json" tabIndex={0} role="region" aria-label={`JSON of event ${event.account_seq}`}>
          {json}
        </pre>
      </section>
      <Code title="Go on after this event" texts={commands(event)} />
    </div>
  );
}
