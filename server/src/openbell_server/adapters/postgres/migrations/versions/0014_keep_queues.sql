-- What became of the rows of the queues: completed ones are counted where they resolve, so that they can be removed later
-- and counting costs the same however many there were; failed ones are noted for operators.

create table if not exists outbox_roll_ups (
    queue text not null check (queue in ('accounts', 'intents', 'users')),
    -- outbox_id / 16384. The rows of a bucket are removed together with its counts, so these always say what is there.
    bucket bigint not null,
    event_type text not null,
    count bigint not null check (count > 0),
    oldest_created_at timestamptz not null,
    max_attempts integer not null,
    newest_resolved_at timestamptz not null,
    primary key (queue, bucket, event_type)
) with (fillfactor = 20);
grant select on outbox_roll_ups to openbell_health, openbell_operator;
grant select, delete on outbox_roll_ups to openbell_relay;
grant select, insert, update on outbox_roll_ups to openbell_writer;

create table if not exists outbox_failures (
    queue text not null check (queue in ('accounts', 'intents', 'users')),
    outbox_id bigint not null,
    organization_id uuid not null,
    event_type text not null,
    created_at timestamptz not null,
    attempts integer not null,
    failed_at timestamptz not null,
    -- An operator has seen it, and why it needs no more care.
    acknowledged_by text,
    acknowledged_at timestamptz,
    acknowledged_reason text,
    -- The new row that says the same again.
    requeued_as bigint,
    primary key (queue, outbox_id),
    check ((acknowledged_by is null) = (acknowledged_at is null)),
    check ((acknowledged_by is null) = (acknowledged_reason is null)),
    check (requeued_as is null or acknowledged_at is not null)
);
call protect_tenant_table('outbox_failures');
create policy roll_up on outbox_failures to openbell_writer using (true);
grant select, insert on outbox_failures to openbell_writer;
create policy health on outbox_failures for select to openbell_health using (true);
grant select (
    queue, outbox_id, event_type, created_at, attempts, failed_at, acknowledged_by, acknowledged_at, acknowledged_reason,
    requeued_as
) on outbox_failures to openbell_health;
create policy list_failures on outbox_failures for select to openbell_operator using (true);
create policy operator on outbox_failures for update to openbell_operator
    using (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);
grant select, update (acknowledged_by, acknowledged_at, acknowledged_reason, requeued_as) on outbox_failures
    to openbell_operator;

-- apart
-- Every queue says of what kind its rows are. A claimed row is a little longer than a waiting one: a page must have room for
-- all of its rows once more, or claims change indexes.
alter table intent_outbox add column if not exists event_type text not null default 'intent.queued';
alter table intent_outbox set (fillfactor = 45);
-- apart
alter table account_outbox set (fillfactor = 45);
-- apart
alter table user_outbox set (fillfactor = 45);

-- apart
-- The relay removes completed rows. Operators look at the rows of all organizations, and put new ones into the queue of
-- the organization that they name. Health counts, and sees nothing of what rows say.
grant delete on account_outbox to openbell_relay;
grant select (status, event_type, created_at, attempts, claimed_at, available_at, resolved_at) on account_outbox
    to openbell_health;
grant select on account_outbox to openbell_operator;
drop policy if exists list_rows on account_outbox;
create policy list_rows on account_outbox for select to openbell_operator using (true);

-- apart
grant delete on intent_outbox to openbell_relay;
grant select (status, event_type, created_at, attempts, claimed_at, available_at, resolved_at) on intent_outbox
    to openbell_health;
drop policy if exists health on intent_outbox;
create policy health on intent_outbox for select to openbell_health using (true);
grant select, insert on intent_outbox to openbell_operator;
drop policy if exists list_rows on intent_outbox;
create policy list_rows on intent_outbox for select to openbell_operator using (true);
drop policy if exists operator on intent_outbox;
create policy operator on intent_outbox for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
grant delete on user_outbox to openbell_relay;
grant select (status, event_type, created_at, attempts, claimed_at, available_at, resolved_at) on user_outbox
    to openbell_health;
drop policy if exists health on user_outbox;
create policy health on user_outbox for select to openbell_health using (true);
grant select, insert on user_outbox to openbell_operator;
drop policy if exists list_rows on user_outbox;
create policy list_rows on user_outbox for select to openbell_operator using (true);
drop policy if exists operator on user_outbox;
create policy operator on user_outbox for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
-- A function's owner must be one that we may act as, for this moment: it may be there already.
grant openbell_writer to current_user;
grant create on schema openbell to openbell_writer;

-- Counts what a statement completed, and notes what it failed, in its own transaction. Keys are written in one order, so that
-- relays wait for each other and never in a circle.
create or replace function roll_up_outbox() returns trigger language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
begin
    if exists (select 1 from old_rows o where o.resolved_at is not null) then
        raise exception 'a row of % that was resolved is changed no more', tg_table_name;
    end if;
    if not exists (select 1 from new_rows n where n.resolved_at is not null) then
        return null;
    end if;
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
    insert into outbox_failures (queue, outbox_id, organization_id, event_type, created_at, attempts, failed_at)
    select tg_argv[0], n.outbox_id, n.organization_id, n.event_type, n.created_at, n.attempts, n.resolved_at
    from new_rows n where n.status = 'failed';
    return null;
end $$;

-- Counts a bucket that had rows before the trigger. The counts are written once, so that whoever completes rows of the bucket
-- waits for us or we for it, and then written again as they are: whatever was counted meanwhile is counted once.
create or replace function roll_up_earlier(p_queue text, p_table regclass, p_bucket bigint) returns void
    language plpgsql security definer set search_path = pg_catalog, openbell, pg_temp as $$
declare
    v_counting constant text := format(
        'select event_type, count(*) as count, min(created_at) as oldest_created_at, max(attempts) as max_attempts,
            max(resolved_at) as newest_resolved_at
        from %s where outbox_id >= $2 * 16384 and outbox_id < ($2 + 1) * 16384 and status = ''completed''
        group by event_type order by event_type', p_table
    );
    v_held text[];
begin
    execute format(
        'with held as (
            insert into outbox_roll_ups as r (
                queue, bucket, event_type, count, oldest_created_at, max_attempts, newest_resolved_at
            )
            select $1, $2, c.* from (%s) c
            on conflict (queue, bucket, event_type) do update set count = r.count
            returning r.event_type
        )
        select array_agg(event_type) from held', v_counting
    ) into v_held using p_queue, p_bucket;
    execute format(
        'update outbox_roll_ups r set count = c.count, oldest_created_at = c.oldest_created_at,
            max_attempts = c.max_attempts, newest_resolved_at = c.newest_resolved_at
        from (%s) c
        where r.queue = $1 and r.bucket = $2 and r.event_type = c.event_type and c.event_type = any ($3)', v_counting
    ) using p_queue, p_bucket, v_held;
    execute format(
        'insert into outbox_failures (queue, outbox_id, organization_id, event_type, created_at, attempts, failed_at)
        select $1, outbox_id, organization_id, event_type, created_at, attempts, resolved_at
        from %s where outbox_id >= $2 * 16384 and outbox_id < ($2 + 1) * 16384 and status = ''failed''
        on conflict do nothing', p_table
    ) using p_queue, p_bucket;
end $$;

create or replace function last_bucket(p_table regclass) returns bigint language plpgsql security definer
    set search_path = pg_catalog, openbell, pg_temp as $$
declare
    v_last bigint;
begin
    execute format('select max(outbox_id) / 16384 from %s', p_table) into v_last;
    return v_last;
end $$;

create or replace procedure roll_up_all_earlier() language plpgsql as $$
declare
    v_queue text;
    v_table regclass;
begin
    for v_queue, v_table in
        values ('accounts', 'openbell.account_outbox'), ('intents', 'openbell.intent_outbox'),
            ('users', 'openbell.user_outbox')
    loop
        for v_bucket in 0 .. coalesce(openbell.last_bucket(v_table), -1) loop
            perform set_config('lock_timeout', '500ms', true);
            perform openbell.roll_up_earlier(v_queue, v_table, v_bucket);
            commit;
        end loop;
    end loop;
end $$;

do $$
declare
    counting text;
begin
    foreach counting in array array[
        'roll_up_outbox()', 'roll_up_earlier(text, regclass, bigint)', 'last_bucket(regclass)'
    ] loop
        execute format('alter function %s owner to openbell_writer', counting);
        execute format('revoke execute on function %s from public', counting);
        execute format('grant execute on function %s to %I', counting, current_user);
    end loop;
end $$;
revoke create on schema openbell from openbell_writer;
revoke openbell_writer from current_user;

-- apart
-- What was there before is counted by its owner, who sees it for this long only.
grant select on account_outbox to openbell_writer;
drop policy if exists roll_up on account_outbox;
create policy roll_up on account_outbox for select to openbell_writer using (true);
create or replace trigger roll_up after update on account_outbox
    referencing old table as old_rows new table as new_rows
    for each statement execute function roll_up_outbox('accounts');

-- apart
create or replace trigger roll_up after update on intent_outbox
    referencing old table as old_rows new table as new_rows
    for each statement execute function roll_up_outbox('intents');

-- apart
grant select on user_outbox to openbell_writer;
drop policy if exists roll_up on user_outbox;
create policy roll_up on user_outbox for select to openbell_writer using (true);
create or replace trigger roll_up after update on user_outbox
    referencing old table as old_rows new table as new_rows
    for each statement execute function roll_up_outbox('users');

-- apart
-- outside a transaction
call openbell.roll_up_all_earlier();

-- apart
revoke select on account_outbox from openbell_writer;
drop policy if exists roll_up on account_outbox;

-- apart
revoke select on user_outbox from openbell_writer;
drop policy if exists roll_up on user_outbox;

-- apart
drop procedure if exists roll_up_all_earlier;
drop function if exists roll_up_earlier, last_bucket;
