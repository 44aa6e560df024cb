import { useSignal } from "@preact/signals";
import { api, type Failure, failureOf, type Schemas, take } from "../../api/api";
import { useReading } from "../../api/reading";
import { href, query, setQuery } from "../../shell/router";
import { can, me } from "../../shell/session";
import { who } from "../../ui/names";
import { Denied } from "../../ui/Change";
import { Code } from "../../ui/Code";
import { Loading, Problem } from "../../ui/Common";
import { useScreen } from "../../ui/screen";
import { Time } from "../../ui/Time";
import { addressOf, differences } from "./diff";
import "./audit.css";

type Entry = Schemas["AuditEntry"];

const PAGE = 50;

interface Filters {
  operation: string;
  who: string;
  since: string;
  until: string;
}

function filtersOf(address: URLSearchParams): Filters {
  const text = (name: string) => (address.get(name) ?? "").slice(0, 200);
  const day = (name: string) => (/^\d{4}-\d\d-\d\d$/.test(text(name)) ? text(name) : "");
  return { operation: text("operation"), who: text("who"), since: day("since"), until: day("until") };
}

function readPage({ operation, who: principal_id, since, until }: Filters, next_cursor: string | undefined, signal?: AbortSignal) {
  const page = {
    order: "desc" as const,
    limit: PAGE,
    ...(operation && { operation }),
    ...(principal_id && { principal_id }),
    ...(since && { since: `${since}T00:00:00Z` }),
    ...(until && { until: `${until}T23:59:59.999999Z` }),
    ...(next_cursor && { next_cursor }),
  };
  return take(api.GET("/v1/audit", { params: { query: page }, signal }));
}

function Changes({ of }: { of: Entry }) {
  const changed = differences(of.before, of.after);
  if (!changed.length) return <p class="dim">Nothing in the object changed.</p>;
  return (
    <table class="diff">
      <thead>
        <tr>
          <th scope="col">Field</th>
          <th scope="col">Before</th>
          <th scope="col">After</th>
        </tr>
      </thead>
      <tbody>
        {changed.map(({ name, before, after }) => (
          <tr key={name}>
            <th scope="row">{name}</th>
            <td>{before === undefined ? <span class="dim">–</span> : <del>{before}</del>}</td>
            <td>{after === undefined ? <span class="dim">removed</span> : <ins>{after}</ins>}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Line({ of }: { of: Entry }) {
  const address = addressOf(of.operation, of.object_id, of.after);
  return (
    <li data-id={of.audit_id}>
      <details>
        <summary>
          <Time at={of.occurred_at} day />
          <b>{who(of.principal_type, of.principal_id)}</b>
          <code>{of.operation}</code>
          <span class="dim object">{of.object_id}</span>
        </summary>
        <div class="entry">
          <p class="form-row">
            <span class="dim">
              Entry {of.number.toLocaleString("en-US")}, recorded by the login <code>{of.login}</code>
            </span>
            {address && (
              <a class="button small" href={href(address)}>
                Open the object
              </a>
            )}
            <button type="button" class="button small" onClick={() => setQuery({ who: of.principal_id })}>
              Only by {of.principal_id}
            </button>
            <button type="button" class="button small" onClick={() => setQuery({ operation: of.operation })}>
              Only {of.operation}
            </button>
          </p>
          <Changes of={of} />
        </div>
      </details>
    </li>
  );
}

function FilterFields({ of }: { of: Filters }) {
  const commit = (name: string) => (event: { currentTarget: HTMLInputElement }) => setQuery({ [name]: event.currentTarget.value.trim() });
  const hasAny = Object.values(of).some(Boolean);
  return (
    <div class="form-row audit-filters">
      <label class="form-field">
        Who
        <input class="field" type="search" placeholder="user or id of a key" value={of.who} onChange={commit("who")} />
      </label>
      <label class="form-field">
        Operation
        <input class="field" type="search" placeholder="keys create" value={of.operation} onChange={commit("operation")} />
      </label>
      <label class="form-field">
        From (UTC)
        <input class="field" type="date" value={of.since} onChange={commit("since")} />
      </label>
      <label class="form-field">
        To (UTC)
        <input class="field" type="date" value={of.until} onChange={commit("until")} />
      </label>
      {hasAny && (
        <button type="button" class="button" onClick={() => setQuery({ who: undefined, operation: undefined, since: undefined, until: undefined })}>
          Clear filters
        </button>
      )}
    </div>
  );
}

function commandOf({ who: principal, operation, since, until }: Filters): string {
  const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;
  const options = [
    principal && ` --principal ${quote(principal)}`,
    operation && ` --operation ${quote(operation)}`,
    since && ` --since ${since}T00:00:00Z`,
    until && ` --until ${until}T23:59:59Z`,
  ];
  return `openbell audit list${options.filter(Boolean).join("")}\nopenbell audit export > audit.jsonl`;
}

interface Older {
  of: unknown;
  rows: readonly Entry[];
  next: string | undefined;
}

function Content() {
  const filters = filtersOf(query.value);
  const newest = useReading(JSON.stringify(filters), (signal) => readPage(filters, undefined, signal));
  const older = useSignal<Older>({ of: undefined, rows: [], next: undefined });
  const isReading = useSignal(false);
  const failure = useSignal<Failure | undefined>(undefined);
  const known = older.value.of === newest.data ? older.value : { of: newest.data, rows: [], next: newest.data?.next_cursor ?? undefined };
  const more = async () => {
    isReading.value = true;
    failure.value = undefined;
    try {
      const page = await readPage(filters, known.next);
      older.value = { of: known.of, rows: [...known.rows, ...page.data], next: page.next_cursor ?? undefined };
    } catch (error) {
      failure.value = failureOf(error);
    }
    isReading.value = false;
  };
  useScreen("audit", !!newest.data || !!newest.failure);
  const rows = [...(newest.data?.data ?? []), ...known.rows];
  return (
    <>
      <FilterFields of={filters} />
      {newest.failure && <Problem failure={newest.failure} again={newest.again} />}
      {newest.isLoading && !newest.data && <Loading what="the audit log" />}
      {newest.data && (
        <section class="card" aria-label="Changes, the newest first">
          <header>
            <h2>Changes, the newest first</h2>
            <span class="grow" />
            <button type="button" class="button small" onClick={newest.again}>
              Read newer
            </button>
          </header>
          <ul class="audit-list">
            {rows.map((each) => (
              <Line key={each.number} of={each} />
            ))}
          </ul>
          {rows.length === 0 && !known.next && (
            <p class="note-line">
              <b>No change {Object.values(filters).some(Boolean) ? "matches" : "was made yet"}.</b>
            </p>
          )}
          {failure.value && <Problem failure={failure.value} again={() => void more()} />}
          <p class="note-line dim">
            {known.next ? (
              <button type="button" class="button small" disabled={isReading.value} onClick={() => void more()}>
                {isReading.value ? "Reading…" : "Older changes"}
              </button>
            ) : (
              rows.length > 0 && "These are all."
            )}
          </p>
        </section>
      )}
      <Code title="The same as a command" texts={{ CLI: commandOf(filters) }} />
    </>
  );
}

function NotAllowed() {
  useScreen("audit", true);
  return (
    <div class="card">
      <Denied operation="READ_AUDIT_LOG" what="read the audit log" />
    </div>
  );
}

export default function AuditScreen() {
  return (
    <section class="screen audit" aria-labelledby="title">
      <div>
        <h1 id="title">Audit</h1>
        <p class="dim">Who changed what. Entries are in a hash chain: export them, and verify the file offline.</p>
      </div>
      {!me.value ? <Loading what="what you may do" /> : can("READ_AUDIT_LOG") ? <Content /> : <NotAllowed />}
    </section>
  );
}
