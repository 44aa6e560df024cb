-- The work of executors in sets: outcomes, reports and doors of many accounts in one statement. Both functions span
-- organizations; their owner may do what they do, and nothing else.

grant select on organizations, accounts, api_keys, intent_actions, forgotten_orders, this_incarnation, control_rules,
    symbol_controls, symbol_time_controls to openbell_worker;
grant select, update on account_counters, orders, action_states to openbell_worker;
grant select, insert, update on positions to openbell_worker;
grant select, insert on executions, position_changes, account_events to openbell_worker;
create policy work_tick on organizations for select to openbell_worker using (true);
create policy work_tick on accounts for select to openbell_worker using (true);
create policy work_tick on api_keys for select to openbell_worker using (true);
create policy work_tick on intent_actions for select to openbell_worker using (true);
create policy work_tick on forgotten_orders for select to openbell_worker using (true);
create policy work_tick on control_rules for select to openbell_worker using (true);
create policy work_tick on symbol_controls for select to openbell_worker using (true);
create policy work_tick on symbol_time_controls for select to openbell_worker using (true);
create policy work_tick on account_counters to openbell_worker using (true);
create policy work_tick on orders to openbell_worker using (true);
create policy work_tick on action_states to openbell_worker using (true);
create policy work_tick on positions to openbell_worker using (true);
create policy work_tick on executions to openbell_worker using (true);
create policy work_tick on position_changes to openbell_worker using (true);
create policy work_tick on account_events to openbell_worker using (true);

-- What the doors of accounts depend on. One snapshot: the rules are those of the epochs.
create function door_terms(p_account_id uuid[]) returns table (
    account_id uuid, organization_epoch bigint, account_epoch bigint, database_epoch bigint, has_rules boolean,
    environment text
) language sql as $$
    select a.account_id, o.control_epoch, c.control_epoch, i.epoch,
        exists (
            select 1 from openbell.control_rules r
            where r.organization_id in (a.organization_id, '00000000-0000-0000-0000-000000000000')
                and (r.of_account is null or r.of_account = a.account_id)
                and (r.terms is not null or r.override_terms is not null)
        )
        or exists (
            select 1 from openbell.symbol_controls s
            where s.organization_id = a.organization_id and s.account_id = a.account_id
        )
        or exists (
            select 1 from openbell.symbol_time_controls s
            where s.organization_id = a.organization_id and s.account_id = a.account_id
        ),
        a.environment
    from openbell.accounts a
    join openbell.organizations o on o.organization_id = a.organization_id
    join openbell.account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
    cross join openbell.this_incarnation i
    where a.account_id = any (p_account_id)
$$;
call run_as('openbell_worker', 'door_terms', 'openbell_executor');

-- Writes outcomes and reports that executors received, and opens doors of accounts. Returns a status for each unit and
-- account, and the actions whose doors were opened.
create function work_tick(
    -- The slots that the caller holds: other accounts are not touched.
    p_slots smallint[],
    -- A unit is what became known of one intent: its order and its only action as the caller remembers them, and as they
    -- become. A unit is written as a whole, or not at all if anything differs from what the caller remembers.
    u_organization_id uuid[], u_account_id uuid[], u_intent_id uuid[], u_action_id uuid[], u_attempt_id uuid[],
    u_version integer[], u_previous text[], u_state text[], u_settles boolean[], u_reason_code text[], u_broker_code text[],
    u_broker_text text[], u_saves_order boolean[], u_filled_quantity numeric[], u_filled_value numeric[],
    u_standing text[], u_close_reason text[], u_pending text[], u_certainty text[],
    -- Array literals, because an array of arrays has only arrays of one length.
    u_broker_order_ids text[],
    -- By how much the unit changes the position in its symbol; null if it has no executions.
    u_symbol text[], u_change numeric[],
    x_unit integer[], x_execution_id text[], x_quantity numeric[], x_price numeric[], x_fee numeric[],
    x_executed_at timestamptz[],
    -- The events of the units in their order. A trade has its position relative to the one after its unit, and its body
    -- ends where the position goes.
    e_unit integer[], e_kind smallint[], e_seq integer[], e_body text[], e_position numeric[],
    -- Accounts whose doors may open: by which epochs and credential the caller judged, how many, and how old their
    -- commands may be.
    d_organization_id uuid[], d_account_id uuid[], d_database_epoch bigint[], d_organization_epoch bigint[],
    d_account_epoch bigint[], d_credential_version integer[], d_row_limit integer[], d_seconds_max integer[],
    p_attempt_id uuid
) returns table (
    ord integer, account_id uuid, status text, at timestamptz, action_id uuid, intent_id uuid, seq integer, symbol text,
    order_side text, order_type text, route_strategy text, quantity numeric, limit_price numeric, stop_price numeric,
    time_in_force text, client_reference_id text, version integer
) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz;
    v_status text[];
    v_seen integer[];
    -- Where the rows of each unit are. The planner may join a small table in any order, and keeps that plan when the table
    -- is large; a row's place leaves it no choice. Nobody moves the rows while their account is locked.
    v_action_row tid[];
    v_order_row tid[];
    -- How many rows the units change: of actions, and of orders.
    v_actions bigint;
    v_orders bigint;
    v_is_valid boolean;
    v_is_complete boolean;
begin
    -- 1. Locks: those of rules first, then the accounts in id order, as every other transaction takes them. Each is a
    --    statement of its own, so that later statements see what the last holder committed.
    if cardinality(d_account_id) > 0 then
        perform pg_advisory_xact_lock_shared(hashtextextended(n.id::text, 7))
        from (
            select distinct id from unnest(d_organization_id || '00000000-0000-0000-0000-000000000000'::uuid) n (id)
            order by id
        ) n;
    end if;
    perform 1
    from (
        select distinct n.organization_id, n.account_id
        from unnest(u_organization_id || d_organization_id, u_account_id || d_account_id) n (organization_id, account_id)
    ) n
    join account_counters c on c.account_id = n.account_id and c.organization_id = n.organization_id
        and c.slot = any (p_slots)
    order by c.account_id for no key update of c;
    v_now := clock_timestamp();

    if cardinality(u_account_id) > 0 then
        -- 2. One read decides every unit, and how many rows will be written.
        if cardinality(x_unit) > 0 then
            select array_agg(x.unit) into v_seen
            from unnest(x_unit, x_execution_id) x (unit, execution_id)
            cross join lateral (
                select 1 from executions e
                where e.account_id = u_account_id[x.unit] and e.execution_id = x.execution_id limit 1
            ) e;
        end if;
        select array_agg(d.status), array_agg(d.action_row), array_agg(d.order_row),
            count(*) filter (where d.status = 'WRITTEN' and d.state <> d.previous),
            count(*) filter (where d.status = 'WRITTEN' and d.saves_order),
            bool_and(d.is_valid) filter (where d.status = 'WRITTEN')
        into v_status, v_action_row, v_order_row, v_actions, v_orders, v_is_valid
        from (
            select u.previous, u.state, u.saves_order, s.row as action_row, o.row as order_row,
                case when s.state = u.previous and s.attempt_id = u.attempt_id
                    and s.organization_id = u.organization_id and s.slot = any (p_slots)
                    and o.version = u.version and u.place = 1 and (v_seen is null or not u.ord = any (v_seen))
                    then 'WRITTEN' else 'CHANGED' end as status,
                -- What was sent has an attempt, so its state is neither QUEUED nor SKIPPED.
                coalesce(
                    u.state not in ('QUEUED', 'SKIPPED')
                    and is_action_state(u.state, u.attempt_id, v_now, v_now, case when u.settles then v_now end)
                    and is_order_state(u.filled_quantity, u.standing, u.close_reason, u.pending, u.certainty),
                    false
                ) as is_valid
            from (
                select u.*, row_number() over (partition by u.account_id, u.intent_id order by u.ord) as place
                from unnest(
                    u_organization_id, u_account_id, u_intent_id, u_action_id, u_attempt_id, u_version, u_previous,
                    u_state, u_settles, u_saves_order, u_filled_quantity, u_standing, u_close_reason, u_pending,
                    u_certainty
                ) with ordinality u (
                    organization_id, account_id, intent_id, action_id, attempt_id, version, previous, state, settles,
                    saves_order, filled_quantity, standing, close_reason, pending, certainty, ord
                )
            ) u
            left join lateral (
                select s.ctid as row, s.organization_id, s.attempt_id, s.state, s.slot from action_states s
                -- By all columns of both keys, whichever the planner uses.
                where s.account_id = u.account_id and s.action_id = u.action_id and s.intent_id = u.intent_id
                    and s.seq = 1
                limit 1
            ) s on true
            left join lateral (
                select o.ctid as row, o.version from orders o
                where o.organization_id = u.organization_id and o.account_id = u.account_id and o.order_id = u.intent_id
                limit 1
            ) o on true
            order by u.ord
        ) d;
        if not v_is_valid then
            raise exception 'a unit has an invalid state' using errcode = 'check_violation';
        end if;

        -- 3. Write, in one statement: a statement costs more to start than a row costs to write.
        with written as materialized (
            select u.*
            from unnest(
                v_status, v_action_row, v_order_row, u_organization_id, u_account_id, u_intent_id, u_previous, u_state,
                u_settles, u_reason_code, u_broker_code, u_broker_text, u_saves_order, u_filled_quantity, u_filled_value,
                u_standing, u_close_reason, u_pending, u_certainty, u_broker_order_ids, u_symbol, u_change
            ) with ordinality u (
                status, action_row, order_row, organization_id, account_id, intent_id, previous, state, settles,
                reason_code, broker_code, broker_text, saves_order, filled_quantity, filled_value, standing, close_reason,
                pending, certainty, broker_order_ids, symbol, change, ord
            )
            where u.status = 'WRITTEN'
        ), acted as (
            update action_states s
            set state = u.state, reason_code = u.reason_code, broker_code = u.broker_code,
                broker_text = left(u.broker_text, 500),
                unknown_since = case when u.state = 'UNKNOWN' then v_now else s.unknown_since end,
                settled_at = case when u.settles then v_now end, updated_at = v_now
            from written u
            where u.state <> u.previous and s.ctid = u.action_row
            returning s.action_id
        ), ordered as (
            update orders o
            set filled_quantity = u.filled_quantity, filled_value = u.filled_value, standing = u.standing,
                close_reason = u.close_reason, pending = u.pending, certainty = u.certainty,
                broker_order_ids = u.broker_order_ids::text[], version = o.version + 1, updated_at = v_now
            from written u
            where u.saves_order and o.ctid = u.order_row
            returning o.order_id
        ), executed as (
            insert into executions (
                organization_id, account_id, execution_id, order_id, quantity, price, fee, executed_at, recorded_at
            )
            select u_organization_id[x.unit], u_account_id[x.unit], x.execution_id, u_intent_id[x.unit], x.quantity, x.price,
                x.fee, x.executed_at, v_now
            from unnest(x_unit, x_execution_id, x_quantity, x_price, x_fee, x_executed_at)
                x (unit, execution_id, quantity, price, fee, executed_at)
            where v_status[x.unit] = 'WRITTEN'
        ), moved as materialized (
            select u.organization_id, u.account_id, u.intent_id, u.symbol, u.change, u.ord,
                sum(u.change) over (partition by u.account_id, u.symbol order by u.ord) as so_far
            from written u
            where u.change is not null
        ), total as (
            select m.organization_id, m.account_id, m.symbol, sum(m.change) as change from moved m group by 1, 2, 3
        ), held as (
            insert into positions as p (organization_id, account_id, symbol, quantity, updated_at)
            select t.organization_id, t.account_id, t.symbol, t.change, v_now from total t order by 2, 3
            on conflict (account_id, symbol) do update
            set quantity = p.quantity + excluded.quantity, updated_at = excluded.updated_at
            returning p.account_id, p.symbol, p.quantity
        ), positioned as materialized (
            select m.*, h.quantity - t.change + m.so_far as quantity
            from moved m
            join total t on t.account_id = m.account_id and t.symbol = m.symbol
            join held h on h.account_id = m.account_id and h.symbol = m.symbol
        ), recorded as (
            insert into position_changes (
                organization_id, account_id, symbol, cause, intent_id, change, quantity, changed_at
            )
            select p.organization_id, p.account_id, p.symbol, 'EXECUTION', p.intent_id, p.change, p.quantity, v_now
            from positioned p where p.change <> 0 order by p.ord
        ), appended as materialized (
            select e.*, u_organization_id[e.unit] as organization_id, u_account_id[e.unit] as account_id,
                row_number() over (partition by u_account_id[e.unit] order by e.place) as number
            from unnest(e_unit, e_kind, e_seq, e_body, e_position)
                with ordinality e (unit, kind, seq, body, position, place)
            where v_status[e.unit] = 'WRITTEN'
        ), counted as (
            update account_counters c set event_no = c.event_no + n.events
            from (select t.account_id, count(*) as events from appended t group by 1) n
            where c.account_id = n.account_id
            returning c.account_id, c.event_no - n.events as before
        ), logged as (
            insert into account_events (organization_id, account_id, event_no, kind, intent_id, seq, body, occurred_at)
            select t.organization_id, t.account_id, c.before + t.number, t.kind, u_intent_id[t.unit], t.seq,
                case when t.position is null then t.body else concat(t.body, '"', p.quantity + t.position, '"}') end, v_now
            from appended t
            join counted c on c.account_id = t.account_id
            left join positioned p on p.ord = t.unit
        )
        select v_actions = (select count(*) from acted) and v_orders = (select count(*) from ordered) into v_is_complete;
        if not v_is_complete then
            raise exception 'an action or an order of a locked account was moved';
        end if;

        at := v_now;
        for unit in 1..cardinality(v_status) loop
            ord := unit;
            status := v_status[unit];
            return next;
        end loop;
    end if;

    -- 4. Doors, in commit order. Whatever is not a plain new order of an account in order takes the long way.
    if cardinality(d_account_id) > 0 then
        return query
        with judged as materialized (
            select d.organization_id, d.account_id, d.row_limit, d.seconds_max, case
                when c.account_id is null or o.organization_id is null or a.account_id is null then 'NOT_FOUND'
                when not i.is_this or i.epoch <> d.database_epoch or c.recovered_epoch <> i.epoch then 'RESTORED'
                when c.control_epoch <> d.account_epoch or o.control_epoch <> d.organization_epoch then 'OTHER_EPOCH'
                when c.halt_code is not null then 'HALTED'
                when o.disabled or a.disabled then 'DISABLED'
                when a.credential_version is distinct from d.credential_version
                    or a.credential_status in ('MISSING', 'INVALID', 'EXPIRED') then 'NOT_SIGNED_IN'
                when i.held_at is not null and (
                    select true from forgotten_orders f where f.account_id = d.account_id limit 1
                ) then 'FORGOTTEN_ORDERS'
                -- Not `exists`: the planner would read the cancels of all accounts at once.
                when (
                    select true from action_states k
                    where k.account_id = d.account_id and k.settled_at is null and k.action_type = 'CANCEL'
                        and k.state = 'QUEUED'
                    limit 1
                ) then 'CANCELS'
                else 'OPEN' end as status
            from unnest(
                d_organization_id, d_account_id, d_database_epoch, d_organization_epoch, d_account_epoch,
                d_credential_version, d_row_limit, d_seconds_max
            ) d (
                organization_id, account_id, database_epoch, organization_epoch, account_epoch, credential_version,
                row_limit, seconds_max
            )
            cross join this_incarnation i
            left join account_counters c on c.account_id = d.account_id and c.organization_id = d.organization_id
                and c.slot = any (p_slots)
            left join organizations o on o.organization_id = d.organization_id
            left join accounts a on a.organization_id = d.organization_id and a.account_id = d.account_id
        ), next as materialized (
            select j.organization_id, j.account_id, j.seconds_max, q.*
            from judged j
            cross join lateral (
                select s.ctid as row, s.action_id, s.intent_id, s.seq, s.action_no, s.action_type, s.deadline, s.queued_at,
                    s.known_as
                from action_states s
                where s.account_id = j.account_id and s.organization_id = j.organization_id and s.settled_at is null
                    and s.state = 'QUEUED'
                order by s.action_no limit j.row_limit
            ) q
            where j.status = 'OPEN'
        ), queued as materialized (
            -- Each `limit 1` and all columns of every key force a look-up by key, whatever the planner expects.
            select n.row, n.account_id, n.action_id, n.intent_id, n.seq, n.action_no, o.symbol, o.order_side,
                o.order_type, o.route_strategy, o.quantity, o.limit_price, o.stop_price, o.time_in_force,
                o.client_reference_id, o.version,
                bool_and(
                    n.action_type = 'CREATE' and (n.deadline is null or n.deadline > v_now) and n.known_as is null
                    and (n.seconds_max is null or n.queued_at > v_now - make_interval(secs => n.seconds_max))
                    and o.standing = 'NONE' and o.pending = 'NEW' and o.certainty = 'CONFIRMED' and not w.is_revoked
                ) over (partition by n.account_id order by n.action_no) as is_plain
            from next n
            cross join lateral (
                select * from orders o
                where o.organization_id = n.organization_id and o.account_id = n.account_id and o.order_id = n.intent_id
                limit 1
            ) o
            cross join lateral (
                select exists (
                    select 1 from api_keys k
                    where k.organization_id = n.organization_id and k.revoked_at is not null
                        and k.api_key_id = case when w.principal_type = 'API_KEY' and w.principal_id
                            ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then w.principal_id::uuid end
                ) as is_revoked
                from intent_actions w
                where w.organization_id = n.organization_id and w.account_id = n.account_id and w.intent_id = n.intent_id
                    and w.seq = n.seq and w.action_no = n.action_no
                limit 1
            ) w
        ), opened as (
            update action_states s
            set state = 'DISPATCHING', attempt_id = p_attempt_id, send_started_at = v_now, updated_at = v_now
            from queued q
            where q.is_plain and s.ctid = q.row and s.state = 'QUEUED' and p_attempt_id is not null
            returning q.*
        )
        select q.action_no::integer, q.account_id, 'OPENED', v_now, q.action_id, q.intent_id, q.seq, q.symbol, q.order_side,
            q.order_type, q.route_strategy, q.quantity, q.limit_price, q.stop_price, q.time_in_force, q.client_reference_id,
            q.version
        from opened q
        union all
        select null, n.account_id, n.status, v_now, null, null, null, null, null, null, null, null, null, null, null, null, null
        from (
            select j.account_id, j.status from judged j
            union all
            select q.account_id, 'NOT_PLAIN' from queued q where not q.is_plain
        ) n;
    end if;
end $$;
call run_as('openbell_worker', 'work_tick', 'openbell_executor');
