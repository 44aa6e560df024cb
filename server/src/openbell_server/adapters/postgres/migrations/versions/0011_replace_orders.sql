-- The accept step takes REPLACE, locks no account for a stranger, and counts no row of one against its owner.

-- To replace a function we must be one that may act as its owner, for this moment. Owner and grants stay as they are.
grant openbell_writer to current_user;

create or replace function accept_commands(
    p_action_id uuid[], p_intent_id uuid[], p_receipt_id uuid[], p_organization_id uuid[], p_account_id uuid[],
    p_action_type text[], p_idempotency_key text[], p_command_hash bytea[],
    p_organization_epoch bigint[], p_account_epoch bigint[],
    p_symbol text[], p_order_side text[], p_order_type text[], p_route_strategy text[],
    p_quantity numeric[], p_limit_price numeric[], p_stop_price numeric[], p_time_in_force text[],
    p_client_reference_id text[], p_principal_type text[], p_principal_id text[], p_receipt text[]
) returns table (
    ord integer, status text, intent_id uuid, seq integer, action_no bigint, command_hash bytea, created_at timestamptz
) language plpgsql security definer set search_path = pg_catalog, openbell, pg_temp as $$
#variable_conflict use_column
declare
    v_now timestamptz;
    v_status text[];
    v_seq integer[];
    v_action_no bigint[];
    v_event_no bigint[];
    v_first_no bigint[];
    v_intent_id uuid[];
    v_command_hash bytea[];
begin
    -- 1. Every account lock, in id order, in a statement of its own: each later statement takes a new snapshot and sees
    --    what the previous holder of the lock committed. Without the order two sets would deadlock. An account that is
    --    named for an organization that is not its own is not locked: nobody waits for a stranger.
    perform 1 from account_counters c
    where c.account_id = any (p_account_id) and exists (
        select 1 from unnest(p_organization_id, p_account_id) n (organization_id, account_id)
        where n.organization_id = c.organization_id and n.account_id = c.account_id
    )
    order by c.account_id for no key update;
    v_now := clock_timestamp();

    -- 2. One narrow read decides every row. Each window starts with organization and account, so that no row of one
    --    account, nor one that a stranger names it in, can change what a row of another gets.
    select array_agg(r.status order by r.ord), array_agg(r.seq order by r.ord), array_agg(r.action_no order by r.ord),
        array_agg(r.event_no order by r.ord), array_agg(r.first_no order by r.ord), array_agg(r.intent_id order by r.ord),
        array_agg(r.command_hash order by r.ord)
    into v_status, v_seq, v_action_no, v_event_no, v_first_no, v_intent_id, v_command_hash
    from (
        select d.ord, d.status, d.seq, d.intent_id, d.command_hash,
            case when d.status = 'ACCEPTED' then d.counted_actions + d.place end as action_no,
            case when d.status = 'ACCEPTED' then d.counted_events + d.place end as event_no,
            d.counted_actions + 1 as first_no
        from (
            select s.*, row_number() over (partition by s.organization_id, s.account_id, s.status order by s.ord) as place
            from (
                select i.ord, i.organization_id, i.account_id, c.action_no as counted_actions, c.event_no as counted_events,
                    coalesce(k.intent_id, i.intent_id) as intent_id, k.command_hash,
                    case
                        when k.intent_id is not null then k.seq
                        when i.action_type = 'CREATE' then 1
                        when x.order_id is null then null
                        when cancel.seq is not null then cancel.seq
                        else (
                            select max(a.seq) + 1 from intent_actions a
                            where a.organization_id = i.organization_id and a.account_id = i.account_id
                                and a.intent_id = i.intent_id
                        )
                    end as seq,
                    case
                        when c.account_id is null or o.organization_id is null then 'NOT_FOUND'
                        when k.intent_id is not null then 'REPLAYED'
                        when i.idempotency_key is not null and row_number() over (
                            partition by i.organization_id, i.account_id, i.idempotency_key order by i.ord
                        ) > 1 then 'SAME_KEY_IN_SET'
                        when abs(uuid7_milliseconds(i.action_id) - extract(epoch from v_now) * 1000) > 300000
                            then 'CLOCK_SKEW'
                        when i.action_type <> 'CANCEL' and (
                            o.control_epoch is distinct from i.organization_epoch
                            or c.control_epoch is distinct from i.account_epoch
                        ) then 'STALE_CONTROLS'
                        when i.action_type = 'CREATE' and (
                            x.order_id is not null or i.symbol !~ '^[A-Z0-9./:_-]{1,32}$'
                        ) is not false then 'INVALID'
                        when i.action_type <> 'CANCEL' and (
                            not i.quantity > 0
                            or (i.order_type in ('LIMIT', 'STOP_LIMIT')) <> (coalesce(i.limit_price, 0) > 0)
                            or (i.order_type in ('STOP', 'STOP_LIMIT')) <> (coalesce(i.stop_price, 0) > 0)
                        ) is not false then 'INVALID'
                        when i.action_type <> 'CREATE' and x.order_id is null then 'NOT_FOUND'
                        when i.action_type = 'CANCEL' and cancel.seq is not null then 'CANCEL_PENDING'
                        when i.action_type <> 'CREATE' and x.standing = 'CLOSED' then 'ORDER_TERMINAL'
                        when i.action_type = 'REPLACE' and x.certainty = 'UNKNOWN' and x.pending = 'NEW'
                            then 'ORDER_UNKNOWN'
                        when i.action_type = 'REPLACE' and i.order_type <> x.order_type then 'IMMUTABLE_FIELD'
                        when i.action_type = 'REPLACE' and i.quantity <= x.filled_quantity
                            then 'QUANTITY_NOT_ABOVE_FILLED'
                        when row_number() over (
                            partition by i.organization_id, i.account_id, i.intent_id order by i.ord
                        ) > 1 then 'DEFERRED'
                        else 'ACCEPTED'
                    end as status
                from unnest(
                    p_action_id, p_intent_id, p_organization_id, p_account_id, p_action_type, p_idempotency_key,
                    p_organization_epoch, p_account_epoch, p_symbol, p_order_type, p_quantity, p_limit_price, p_stop_price
                ) with ordinality i (
                    action_id, intent_id, organization_id, account_id, action_type, idempotency_key,
                    organization_epoch, account_epoch, symbol, order_type, quantity, limit_price, stop_price, ord
                )
                left join account_counters c
                    on c.account_id = i.account_id and c.organization_id = i.organization_id
                left join organizations o on o.organization_id = i.organization_id
                left join idempotency_keys k on k.account_id = c.account_id and k.key = i.idempotency_key
                left join orders x
                    on x.organization_id = i.organization_id and x.account_id = i.account_id and x.order_id = i.intent_id
                -- A second CANCEL is the first one while that waits or was sent less than five seconds ago.
                left join lateral (
                    select a.seq from action_states a
                    where i.action_type = 'CANCEL' and a.account_id = x.account_id and a.intent_id = x.order_id
                        and a.action_type = 'CANCEL' and a.state not in ('FAILED', 'SKIPPED', 'REFUSED')
                        and (a.state = 'QUEUED' or a.send_started_at > v_now - interval '5 seconds')
                    order by a.seq desc limit 1
                ) cancel on true
            ) s
        ) d
    ) r;

    -- 3. One small insert per table.
    if 'ACCEPTED' = any (v_status) then
        insert into orders (
            organization_id, account_id, order_id, symbol, order_side, order_type, route_strategy, quantity, limit_price,
            stop_price, time_in_force, client_reference_id, created_at, updated_at
        )
        select t.organization_id, t.account_id, t.intent_id, t.symbol, t.order_side, t.order_type, t.route_strategy,
            t.quantity, t.limit_price, t.stop_price, t.time_in_force, t.client_reference_id, v_now, v_now
        from unnest(
            v_status, p_action_type, p_organization_id, p_account_id, p_intent_id, p_symbol, p_order_side, p_order_type,
            p_route_strategy, p_quantity, p_limit_price, p_stop_price, p_time_in_force, p_client_reference_id
        ) t (
            status, action_type, organization_id, account_id, intent_id, symbol, order_side, order_type,
            route_strategy, quantity, limit_price, stop_price, time_in_force, client_reference_id
        )
        where t.status = 'ACCEPTED' and t.action_type = 'CREATE';

        -- A cancel outranks a replace that waits.
        update orders x set pending = t.action_type, updated_at = v_now
        from unnest(v_status, p_action_type, p_organization_id, p_account_id, p_intent_id)
            t (status, action_type, organization_id, account_id, intent_id)
        where t.status = 'ACCEPTED' and t.action_type in ('REPLACE', 'CANCEL') and x.organization_id = t.organization_id
            and x.account_id = t.account_id and x.order_id = t.intent_id
            and (x.pending = 'NONE' or (x.pending = 'REPLACE' and t.action_type = 'CANCEL'));

        with written as (
            insert into intent_actions (
                organization_id, account_id, intent_id, seq, action_id, action_no, chained_from, action_type, symbol,
                order_side, order_type, route_strategy, quantity, limit_price, stop_price, time_in_force,
                client_reference_id, principal_type, principal_id, receipt_id, created_at, hash
            )
            select t.organization_id, t.account_id, t.intent_id, t.seq, t.action_id, t.action_no, t.first_no,
                t.action_type, x.symbol, x.order_side, x.order_type, x.route_strategy, s.quantity, s.limit_price,
                s.stop_price, s.time_in_force, t.client_reference_id, t.principal_type, t.principal_id, t.receipt_id,
                v_now,
                sha256(convert_to(
                    canonical_field(t.action_id::text) || canonical_field(t.intent_id::text)
                    || canonical_field(t.account_id::text) || canonical_field(t.organization_id::text)
                    || canonical_field(t.action_no::text) || canonical_field(t.seq::text)
                    || canonical_field(t.action_type) || canonical_field(x.symbol) || canonical_field(x.order_side)
                    || canonical_field(x.order_type) || canonical_field(x.route_strategy)
                    || canonical_field(s.quantity::text) || canonical_field(s.limit_price::text)
                    || canonical_field(s.stop_price::text) || canonical_field(s.time_in_force)
                    || canonical_field(t.client_reference_id) || canonical_field(t.principal_type)
                    || canonical_field(t.principal_id) || canonical_field(t.receipt_id::text)
                    || canonical_field((extract(epoch from v_now) * 1000000)::bigint::text),
                    'UTF8'
                ))
            from unnest(
                v_status, v_seq, v_action_no, v_first_no, p_action_id, p_intent_id, p_receipt_id, p_organization_id,
                p_account_id, p_action_type, p_quantity, p_limit_price, p_stop_price, p_time_in_force,
                p_client_reference_id, p_principal_type, p_principal_id
            ) t (
                status, seq, action_no, first_no, action_id, intent_id, receipt_id, organization_id,
                account_id, action_type, quantity, limit_price, stop_price, time_in_force,
                client_reference_id, principal_type, principal_id
            )
            join orders x on x.organization_id = t.organization_id and x.account_id = t.account_id
                and x.order_id = t.intent_id
            -- Without a time in force a replace keeps the one that the replaces before it, still under way, would leave.
            left join lateral (
                select a.time_in_force from action_states u
                join intent_actions a on a.organization_id = x.organization_id and a.account_id = x.account_id
                    and a.intent_id = x.order_id and a.seq = u.seq
                where t.action_type = 'REPLACE' and t.time_in_force is null and u.account_id = x.account_id
                    and u.intent_id = x.order_id and u.action_type = 'REPLACE' and u.settled_at is null
                order by u.seq desc limit 1
            ) kept on true
            -- A full snapshot: what the command does not say is the order's.
            cross join lateral (
                select coalesce(t.quantity, x.quantity) as quantity, coalesce(t.limit_price, x.limit_price) as limit_price,
                    coalesce(t.stop_price, x.stop_price) as stop_price,
                    coalesce(t.time_in_force, kept.time_in_force, x.time_in_force) as time_in_force
            ) s
            where t.status = 'ACCEPTED'
            returning account_id, action_no, hash, receipt_id
        ),
        explained as (
            insert into receipts (
                organization_id, account_id, receipt_id, intent_id, seq, verdict, body, hash, created_at
            )
            select t.organization_id, t.account_id, t.receipt_id, t.intent_id, t.seq, 'PASSED', t.receipt,
                sha256(convert_to(t.receipt, 'UTF8')), v_now
            from unnest(v_status, v_seq, p_organization_id, p_account_id, p_receipt_id, p_intent_id, p_receipt)
                t (status, seq, organization_id, account_id, receipt_id, intent_id, receipt)
            where t.status = 'ACCEPTED'
            returning account_id, receipt_id, hash
        )
        update account_counters c
        set action_no = g.last_no, event_no = c.event_no + g.actions, chain_head = sha256(c.chain_head || g.hashes)
        from (
            select w.account_id, max(w.action_no) as last_no, count(*) as actions,
                string_agg(w.hash || e.hash, ''::bytea order by w.action_no) as hashes
            from written w join explained e using (account_id, receipt_id)
            group by w.account_id
        ) g
        where c.account_id = g.account_id;

        insert into action_states (
            organization_id, account_id, action_id, intent_id, seq, action_no, action_type, slot, state, queued_at,
            updated_at
        )
        select t.organization_id, t.account_id, t.action_id, t.intent_id, t.seq, t.action_no, t.action_type, c.slot,
            'QUEUED', v_now, v_now
        from unnest(
            v_status, v_seq, v_action_no, p_organization_id, p_account_id, p_action_id, p_intent_id, p_action_type
        ) t (status, seq, action_no, organization_id, account_id, action_id, intent_id, action_type)
        join account_counters c on c.account_id = t.account_id
        where t.status = 'ACCEPTED';

        insert into intent_outbox (organization_id, account_id, slot, action_id, available_at, created_at)
        select t.organization_id, t.account_id, c.slot, t.action_id, v_now, v_now
        from unnest(v_status, p_organization_id, p_account_id, p_action_id)
            with ordinality t (status, organization_id, account_id, action_id, ord)
        join account_counters c on c.account_id = t.account_id
        where t.status = 'ACCEPTED'
        order by t.ord;

        insert into account_events (organization_id, account_id, event_no, kind, intent_id, seq, occurred_at)
        select t.organization_id, t.account_id, t.event_no, 1, t.intent_id, t.seq, v_now
        from unnest(v_status, v_seq, v_event_no, p_organization_id, p_account_id, p_intent_id)
            t (status, seq, event_no, organization_id, account_id, intent_id)
        where t.status = 'ACCEPTED';
    end if;

    insert into idempotency_keys (organization_id, account_id, key, command_hash, intent_id, seq, created_at)
    select t.organization_id, t.account_id, t.key, t.command_hash, t.intent_id, t.seq, v_now
    from unnest(v_status, v_seq, p_organization_id, p_account_id, p_idempotency_key, p_command_hash, p_intent_id)
        t (status, seq, organization_id, account_id, key, command_hash, intent_id)
    where t.status in ('ACCEPTED', 'CANCEL_PENDING') and t.key is not null;

    return query
    select t.ord::integer, t.status, t.intent_id, t.seq, t.action_no, t.command_hash, v_now
    from unnest(v_status, v_intent_id, v_seq, v_action_no, v_command_hash)
        with ordinality t (status, intent_id, seq, action_no, command_hash, ord);
end $$;

revoke openbell_writer from current_user;

-- What a set with a REPLACE in it is sent through: where the accept step does not know the command, this is not there.
create or replace function accept_replaces(
    p_action_id uuid[], p_intent_id uuid[], p_receipt_id uuid[], p_organization_id uuid[], p_account_id uuid[],
    p_action_type text[], p_idempotency_key text[], p_command_hash bytea[],
    p_organization_epoch bigint[], p_account_epoch bigint[],
    p_symbol text[], p_order_side text[], p_order_type text[], p_route_strategy text[],
    p_quantity numeric[], p_limit_price numeric[], p_stop_price numeric[], p_time_in_force text[],
    p_client_reference_id text[], p_principal_type text[], p_principal_id text[], p_receipt text[]
) returns table (
    ord integer, status text, intent_id uuid, seq integer, action_no bigint, command_hash bytea, created_at timestamptz
) language sql set search_path = pg_catalog, openbell, pg_temp as $$
    select * from accept_commands(
        p_action_id, p_intent_id, p_receipt_id, p_organization_id, p_account_id, p_action_type, p_idempotency_key,
        p_command_hash, p_organization_epoch, p_account_epoch, p_symbol, p_order_side, p_order_type, p_route_strategy,
        p_quantity, p_limit_price, p_stop_price, p_time_in_force, p_client_reference_id, p_principal_type,
        p_principal_id, p_receipt
    )
$$;
revoke execute on function accept_replaces from public;
grant execute on function accept_replaces to openbell_accept;
