-- Events: the log of each account, the queues that the relay sends from, and webhooks.

create table account_events (
    organization_id uuid not null,
    account_id uuid not null,
    event_no bigint not null,
    kind smallint not null,
    -- Null where the event concerns no intent.
    intent_id uuid,
    seq integer,
    -- Null for an action that was just recorded: the reader joins the action.
    body text,
    occurred_at timestamptz not null,
    primary key (account_id, event_no)
);
comment on table account_events is 'The event log of each account, numbered without gaps. Append-only.';
create trigger append_only before update or delete or truncate on account_events
    for each statement execute function refuse_change();
call protect_tenant_table('account_events');
grant select on account_events to openbell_reader;
grant select, insert on account_events to openbell_writer;
create policy accept_step on account_events to openbell_writer using (true);

-- Refuses to delete events younger than seven days, for any retention setting.
create function refuse_young_events() returns trigger language plpgsql as $$
begin
    if exists (select 1 from removed r where r.occurred_at > clock_timestamp() - interval '7 days') then
        raise exception 'events are kept for at least seven days' using errcode = 'OB001';
    end if;
    return null;
end $$;
create trigger young_events after delete on account_events
    referencing old table as removed for each statement execute function refuse_young_events();

-- The only way to append events but the accept step: numbers follow the counter, times are the database's, and the account
-- is one of the organization that the transaction names. Returns the numbers of the events.
create function append_events(
    p_organization_id uuid, p_account_id uuid, p_kinds smallint[], p_intent_ids uuid[], p_seqs integer[], p_bodies text[]
) returns setof bigint language plpgsql as $$
declare
    v_before bigint;
begin
    update openbell.account_counters c set event_no = c.event_no + cardinality(p_kinds)
    where c.organization_id = p_organization_id and c.account_id = p_account_id
        and c.organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid
    returning c.event_no - cardinality(p_kinds) into v_before;
    return query
    insert into openbell.account_events (organization_id, account_id, event_no, kind, intent_id, seq, body, occurred_at)
    select p_organization_id, p_account_id, v_before + t.place, t.kind, t.intent_id, t.seq, t.body, clock_timestamp()
    from unnest(p_kinds, p_intent_ids, p_seqs, p_bodies) with ordinality t (kind, intent_id, seq, body, place)
    where v_before is not null
    returning event_no;
end $$;
call run_as('openbell_writer', 'append_events', 'openbell_execution');

-- The events of everybody but executors: that an account (3) or a control (7) changed, or a command was refused (8).
create function append_change(p_organization_id uuid, p_account_id uuid, p_kind smallint, p_body text)
    returns setof bigint language plpgsql as $$
begin
    if p_kind not in (3, 7, 8) then
        raise exception 'only executors append events of kind %', p_kind using errcode = 'insufficient_privilege';
    end if;
    return query
    select openbell.append_events(
        p_organization_id, p_account_id, array[p_kind], array[null::uuid], array[null::integer], array[p_body]
    );
end $$;
call run_as(
    'openbell_writer', 'append_change', 'openbell_tenant', 'openbell_execution', 'openbell_delivery', 'openbell_operator'
);

-- The three queues have the same rules. The partial index depends on resolved_at only, so a claim updates no index; every
-- claim must repeat `resolved_at is null`. A claimed row is a little longer than a waiting one: with a fill factor of 45 %
-- a page has room for all of its rows once more.
create table intent_outbox (
    outbox_id bigint generated always as identity primary key,
    organization_id uuid not null,
    account_id uuid not null,
    slot smallint not null,
    action_id uuid not null,
    event_type text not null default 'intent.queued',
    status text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
    attempts integer not null default 0,
    claim_token bigint not null default 0,
    claimed_at timestamptz,
    available_at timestamptz not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    check ((status = 'processing') = (claimed_at is not null)),
    check ((status in ('completed', 'failed')) = (resolved_at is not null))
) with (fillfactor = 45);
comment on table intent_outbox is
    'The queue that notifies executors of accepted actions. A row has no payload: the executor reads the action. A row whose action has been taken up is completed without being published.';
create index intent_outbox_unresolved on intent_outbox (outbox_id) where resolved_at is null;
call protect_tenant_table('intent_outbox');
grant select, insert on intent_outbox to openbell_writer;
create policy accept_step on intent_outbox to openbell_writer using (true);
grant select, update, delete on intent_outbox to openbell_relay;
create policy relay on intent_outbox to openbell_relay using (true);
create policy completed_only on intent_outbox as restrictive for delete to openbell_relay using (status = 'completed');
grant select (status, event_type, created_at, attempts, claimed_at, available_at, resolved_at) on intent_outbox
    to openbell_health;
create policy health on intent_outbox for select to openbell_health using (true);
-- Operators list the rows of all organizations, and add rows for the organization that their transaction names.
grant select, insert on intent_outbox to openbell_operator;
create policy list_rows on intent_outbox for select to openbell_operator using (true);
create policy operator on intent_outbox for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

create table account_outbox (
    outbox_id bigint generated always as identity primary key,
    organization_id uuid not null,
    account_id uuid not null,
    event_type text not null check (
        event_type in (
            'account.created', 'account.updated', 'account.deleted',
            'credential.created', 'credential.updated', 'credential.deleted'
        )
    ),
    -- JSON, as it is published.
    payload text not null,
    status text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
    attempts integer not null default 0,
    claim_token bigint not null default 0,
    claimed_at timestamptz,
    available_at timestamptz not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    foreign key (organization_id, account_id) references accounts,
    check ((status = 'processing') = (claimed_at is not null)),
    check ((status in ('completed', 'failed')) = (resolved_at is not null))
) with (fillfactor = 45);
comment on table account_outbox is 'The queue of changes of accounts and credentials.';
create index account_outbox_unresolved on account_outbox (outbox_id) where resolved_at is null;
call protect_tenant_table('account_outbox');
grant insert on account_outbox to openbell_tenant, openbell_execution, openbell_delivery;
grant select, update, delete on account_outbox to openbell_relay;
create policy relay on account_outbox to openbell_relay using (true);
create policy completed_only on account_outbox as restrictive for delete to openbell_relay using (status = 'completed');
grant select (status, event_type, created_at, attempts, claimed_at, available_at, resolved_at) on account_outbox
    to openbell_health;
create policy health on account_outbox for select to openbell_health using (true);
grant select, insert on account_outbox to openbell_operator;
create policy list_rows on account_outbox for select to openbell_operator using (true);
create policy operator on account_outbox for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

create table user_outbox (
    outbox_id bigint generated always as identity primary key,
    organization_id uuid not null references organizations,
    event_type text not null check (event_type in ('user.deleted')),
    payload text not null,
    status text not null default 'pending' check (status in ('pending', 'processing', 'completed', 'failed')),
    attempts integer not null default 0,
    claim_token bigint not null default 0,
    claimed_at timestamptz,
    available_at timestamptz not null,
    created_at timestamptz not null,
    resolved_at timestamptz,
    check ((status = 'processing') = (claimed_at is not null)),
    check ((status in ('completed', 'failed')) = (resolved_at is not null))
) with (fillfactor = 45);
comment on table user_outbox is 'The queue of users who were deleted.';
create index user_outbox_unresolved on user_outbox (outbox_id) where resolved_at is null;
call protect_tenant_table('user_outbox');
grant select, insert, update, delete on user_outbox to openbell_relay;
create policy relay on user_outbox to openbell_relay using (true);
create policy completed_only on user_outbox as restrictive for delete to openbell_relay using (status = 'completed');
grant select (status, event_type, created_at, attempts, claimed_at, available_at, resolved_at) on user_outbox
    to openbell_health;
create policy health on user_outbox for select to openbell_health using (true);
grant select, insert on user_outbox to openbell_operator;
create policy list_rows on user_outbox for select to openbell_operator using (true);
create policy operator on user_outbox for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

create table outbox_roll_ups (
    queue text not null check (queue in ('accounts', 'intents', 'users')),
    -- outbox_id / 16384. The relay removes the rows of a bucket together with its counts, so the counts are always exact.
    bucket bigint not null,
    event_type text not null,
    count bigint not null check (count > 0),
    oldest_created_at timestamptz not null,
    max_attempts integer not null,
    newest_resolved_at timestamptz not null,
    primary key (queue, bucket, event_type)
) with (fillfactor = 20);
comment on table outbox_roll_ups is 'Counts of completed rows, so that the health of a queue costs the same however long its past is.';
grant select on outbox_roll_ups to openbell_health, openbell_operator;
grant select, delete on outbox_roll_ups to openbell_relay;
grant select, insert, update on outbox_roll_ups to openbell_writer;

create table outbox_failures (
    queue text not null check (queue in ('accounts', 'intents', 'users')),
    outbox_id bigint not null,
    organization_id uuid not null,
    event_type text not null,
    created_at timestamptz not null,
    attempts integer not null,
    failed_at timestamptz not null,
    -- An operator has seen the failure, and why nothing more has to be done.
    acknowledged_by text,
    acknowledged_at timestamptz,
    acknowledged_reason text,
    -- The new row that repeats the failed one.
    requeued_as bigint,
    primary key (queue, outbox_id),
    check ((acknowledged_by is null) = (acknowledged_at is null)),
    check ((acknowledged_by is null) = (acknowledged_reason is null)),
    check (requeued_as is null or acknowledged_at is not null)
);
comment on table outbox_failures is 'Rows that the relay could not send, for operators to requeue or acknowledge.';
call protect_tenant_table('outbox_failures');
grant select, insert on outbox_failures to openbell_writer;
create policy roll_up on outbox_failures to openbell_writer using (true);
grant select (
    queue, outbox_id, event_type, created_at, attempts, failed_at, acknowledged_by, acknowledged_at, acknowledged_reason,
    requeued_as
) on outbox_failures to openbell_health;
create policy health on outbox_failures for select to openbell_health using (true);
grant select, update (acknowledged_by, acknowledged_at, acknowledged_reason, requeued_as) on outbox_failures
    to openbell_operator;
create policy list_failures on outbox_failures for select to openbell_operator using (true);
create policy operator on outbox_failures for update to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- The trigger of the queues: counts the rows that a statement completed and records those that it failed, in the same
-- transaction. Counts are written in the order of their key, so that relays wait for each other and never deadlock.
create function roll_up_outbox() returns trigger language plpgsql as $$
begin
    -- 1. A resolved row is final: its count was written when it resolved.
    if exists (select 1 from old_rows o where o.resolved_at is not null) then
        raise exception 'a row of % that was resolved is changed no more', tg_table_name;
    end if;
    if not exists (select 1 from new_rows n where n.resolved_at is not null) then
        return null;
    end if;
    -- 2. Completed rows are counted.
    insert into outbox_roll_ups as r (
        queue, bucket, event_type, count, oldest_created_at, max_attempts, newest_resolved_at
    )
    select tg_argv[0], n.outbox_id / 16384, n.event_type, count(*), min(n.created_at), max(n.attempts), max(n.resolved_at)
    from new_rows n where n.status = 'completed'
    group by 2, 3
    order by 2, 3
    on conflict (queue, bucket, event_type) do update set
        count = r.count + excluded.count,
        oldest_created_at = least(r.oldest_created_at, excluded.oldest_created_at),
        max_attempts = greatest(r.max_attempts, excluded.max_attempts),
        newest_resolved_at = greatest(r.newest_resolved_at, excluded.newest_resolved_at);
    -- 3. Failed rows are recorded for operators.
    insert into outbox_failures (queue, outbox_id, organization_id, event_type, created_at, attempts, failed_at)
    select tg_argv[0], n.outbox_id, n.organization_id, n.event_type, n.created_at, n.attempts, n.resolved_at
    from new_rows n where n.status = 'failed';
    return null;
end $$;
call run_as('openbell_writer', 'roll_up_outbox', current_user);
create trigger roll_up after update on intent_outbox referencing old table as old_rows new table as new_rows
    for each statement execute function roll_up_outbox('intents');
create trigger roll_up after update on account_outbox referencing old table as old_rows new table as new_rows
    for each statement execute function roll_up_outbox('accounts');
create trigger roll_up after update on user_outbox referencing old table as old_rows new table as new_rows
    for each statement execute function roll_up_outbox('users');

create table webhooks (
    organization_id uuid not null references organizations,
    webhook_id uuid not null,
    url text not null check (length(url) between 1 and 2048),
    description text check (length(description) between 1 and 500),
    -- The kinds of events that are sent.
    kinds smallint[] not null check (cardinality(kinds) between 1 and 32),
    -- Null: every account, also those created later; of one environment if that is set.
    account_ids uuid[] check (cardinality(account_ids) between 1 and 1000),
    environment text check (environment in ('paper', 'live')),
    -- GONE: the target answered 410.
    status text not null default 'ACTIVE' check (status in ('ACTIVE', 'PAUSED', 'GONE')),
    -- Secrets are derived from the version and not stored; the previous one also signs until that moment.
    secret_version integer not null default 1,
    previous_secret_until timestamptz,
    version integer not null default 1,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    principal_type text not null check (principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM', 'OPERATOR')),
    principal_id text not null check (principal_id <> ''),
    primary key (organization_id, webhook_id),
    unique (webhook_id)
);
comment on table webhooks is 'Where an organization receives the events of its accounts.';
call protect_tenant_table('webhooks');
grant select, insert, delete, update (
    url, description, kinds, account_ids, status, secret_version, previous_secret_until, version, updated_at
) on webhooks to openbell_tenant;
grant select, update (status, version, updated_at) on webhooks to openbell_delivery;
-- The role that finds what is to be sent reads neither the address nor the events.
grant select (organization_id, webhook_id, kinds, account_ids, environment, status, created_at) on webhooks
    to openbell_relay;
create policy relay on webhooks for select to openbell_relay using (true);
grant select (organization_id, webhook_id, status) on webhooks to openbell_health;
create policy health on webhooks for select to openbell_health using (true);

create table webhook_lanes (
    organization_id uuid not null,
    webhook_id uuid not null,
    account_id uuid not null,
    -- The number of the last event that was delivered, or skipped because its kind is not sent.
    position bigint not null check (position >= 0),
    -- The number of the last event that was delivered; null before the first.
    previous bigint check (previous >= 0),
    -- Failed attempts in a row, and since when.
    failures integer not null default 0,
    failing_since timestamptz,
    next_attempt_at timestamptz not null,
    -- The claim of the worker that is sending, and when it ends.
    claimed_until timestamptz,
    claim_token uuid,
    -- Since when nothing is sent until a caller resumes it, because it failed for too long.
    parked_at timestamptz,
    -- The result of the last attempt: the target's status, and a text about the failure.
    last_status integer,
    last_error text check (length(last_error) <= 500),
    delivered bigint not null default 0,
    updated_at timestamptz not null,
    primary key (organization_id, webhook_id, account_id),
    foreign key (organization_id, webhook_id) references webhooks on delete cascade,
    foreign key (organization_id, account_id) references accounts
) with (fillfactor = 50);
comment on table webhook_lanes is
    'How far each account''s log was sent to a webhook. Events of an account are sent in order and wait for no other account.';
create index webhook_lanes_of_account on webhook_lanes (account_id);
call protect_tenant_table('webhook_lanes');
grant select, insert, delete, update (
    position, previous, failures, failing_since, next_attempt_at, claimed_until, claim_token, parked_at, last_status,
    last_error, delivered, updated_at
) on webhook_lanes to openbell_tenant;
grant select, update (
    position, previous, failures, failing_since, next_attempt_at, claimed_until, claim_token, parked_at, last_status,
    last_error, delivered, updated_at
) on webhook_lanes to openbell_delivery;
grant select, insert, update on webhook_lanes to openbell_relay;
create policy relay on webhook_lanes to openbell_relay using (true);
grant select (organization_id, webhook_id, account_id, position, parked_at) on webhook_lanes to openbell_health;
create policy health on webhook_lanes for select to openbell_health using (true);

create table webhook_attempts (
    organization_id uuid not null,
    webhook_id uuid not null,
    attempt_no bigint not null generated always as identity,
    account_id uuid not null,
    -- The number of the event, and the id of its message.
    account_seq bigint not null,
    message_id text not null,
    attempted_at timestamptz not null default clock_timestamp(),
    duration_millis integer not null,
    -- The target's status, and why the message counts as not delivered.
    status integer,
    error text,
    message text check (length(message) <= 500),
    -- Null if it was delivered or is not tried again.
    next_attempt_at timestamptz,
    -- No foreign key: its check would lock the webhook's row in each delivery. What removes a webhook removes these too.
    primary key (organization_id, webhook_id, attempt_no)
);
comment on table webhook_attempts is
    'Deliveries to webhooks that were tried lately, with their results; the relay removes them after three days.';
call protect_tenant_table('webhook_attempts');
grant select, delete on webhook_attempts to openbell_tenant;
grant insert (
    organization_id, webhook_id, account_id, account_seq, message_id, duration_millis, status, error, message,
    next_attempt_at
) on webhook_attempts to openbell_delivery;
grant select (organization_id, webhook_id, attempt_no, attempted_at), delete on webhook_attempts to openbell_relay;
create policy relay on webhook_attempts to openbell_relay using (true);

create table stream_counts (
    organization_id uuid not null references organizations,
    -- A number of this life of a process: after a restart it has another.
    process_id uuid not null,
    streams integer not null check (streams >= 0),
    -- The writes of a process are numbered: one that arrives late does not replace a later number.
    write_no bigint not null,
    -- Numbers that are not renewed for some seconds are not counted: their process was killed.
    renewed_at timestamptz not null,
    primary key (organization_id, process_id)
) with (fillfactor = 50);
comment on table stream_counts is
    'How many event streams of an organization are open in each process, so that their sum can be limited.';
call protect_tenant_table('stream_counts');
-- Only the processes that serve streams have this role. They renew the numbers of all organizations with one statement.
grant select, insert, delete, update (streams, write_no, renewed_at) on stream_counts to openbell_keys;
create policy renew on stream_counts to openbell_keys using (true);
