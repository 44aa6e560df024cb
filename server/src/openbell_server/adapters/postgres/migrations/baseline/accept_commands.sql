-- Accepting commands: the accept step for a batch of any commands.

-- Takes a batch of commands and returns one status for each. Everything that belongs to an accepted command is written in
-- one transaction.
create function accept_commands(
    p_action_id uuid[], p_intent_id uuid[], p_receipt_id uuid[], p_organization_id uuid[], p_account_id uuid[],
    p_action_type text[], p_idempotency_key text[], p_command_hash bytea[],
    p_organization_epoch bigint[], p_account_epoch bigint[],
    p_symbol text[], p_order_side text[], p_order_type text[], p_route_strategy text[],
    p_quantity numeric[], p_limit_price numeric[], p_stop_price numeric[], p_time_in_force text[],
    p_client_reference_id text[], p_principal_type text[], p_principal_id text[], p_receipt text[],
    p_own_only boolean[]
) returns table (
    ord integer, status text, intent_id uuid, seq integer, action_no bigint, command_hash bytea, created_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
    v_now timestamptz;
    v_millis bigint;
    v_earliest_id uuid;
    v_latest_id uuid;
    v_moment text;
    -- Whether any command refers to an order that exists already.
    v_refers boolean := p_action_type && array['REPLACE', 'CANCEL'];
    v_status text[];
    v_seq integer[];
    v_action_no bigint[];
    v_event_no bigint[];
    v_first_no bigint[];
    v_slot smallint[];
    v_intent_id uuid[];
    v_command_hash bytea[];
    -- The full snapshot of its order that each action records.
    v_symbol text[] := p_symbol;
    v_order_side text[] := p_order_side;
    v_order_type text[] := p_order_type;
    v_route_strategy text[] := p_route_strategy;
    v_quantity numeric[] := p_quantity;
    v_limit_price numeric[] := p_limit_price;
    v_stop_price numeric[] := p_stop_price;
    v_time_in_force text[] := p_time_in_force;
    v_hash bytea[];
    v_receipt_hash bytea[];
begin
    if p_action_type = array['CREATE'] then
        return query
        select * from accept_create(
            p_action_id[1], p_intent_id[1], p_receipt_id[1], p_organization_id[1], p_account_id[1], p_idempotency_key[1],
            p_command_hash[1], p_organization_epoch[1], p_account_epoch[1], p_symbol[1], p_order_side[1], p_order_type[1],
            p_route_strategy[1], p_quantity[1], p_limit_price[1], p_stop_price[1], p_time_in_force[1],
            p_client_reference_id[1], p_principal_type[1], p_principal_id[1], p_receipt[1]
        );
        return;
    end if;

    -- 1. Lock every account, in id order, in a statement of its own: each later statement takes a new snapshot and sees
    --    what the previous holder of the lock committed. Without the order two batches could deadlock. An account that a
    --    command names for another organization is not locked, so that no organization can delay another.
    perform 1
    from (
        select distinct n.organization_id, n.account_id
        from unnest(p_organization_id, p_account_id) n (organization_id, account_id)
    ) n
    join account_counters c on c.account_id = n.account_id and c.organization_id = n.organization_id
    order by c.account_id for no key update of c;
    v_now := clock_timestamp();
    v_millis := (extract(epoch from v_now) * 1000)::bigint;
    v_earliest_id := (lpad(to_hex(v_millis - 300000), 12, '0') || repeat('0', 20))::uuid;
    v_latest_id := (lpad(to_hex(v_millis + 300000), 12, '0') || repeat('f', 20))::uuid;
    v_moment := canonical_field((extract(epoch from v_now) * 1000000)::bigint::text);

    -- 2. One narrow read decides every command. Each window starts with organization and account, so that a command of
    --    one account, or one that names an account of another organization, cannot change the result of another.
    with organizations_named as materialized (
        select o.organization_id, o.control_epoch from organizations o where o.organization_id = any (p_organization_id)
    )
    select array_agg(r.status), array_agg(r.seq), array_agg(r.action_no), array_agg(r.event_no), array_agg(r.first_no),
        array_agg(r.slot), array_agg(r.intent_id), array_agg(r.command_hash)
    into v_status, v_seq, v_action_no, v_event_no, v_first_no, v_slot, v_intent_id, v_command_hash
    from (
        select d.ord, d.status, d.seq, d.slot, d.intent_id, d.command_hash,
            case when d.status = 'ACCEPTED' then d.counted_actions + d.place end as action_no,
            case when d.status = 'ACCEPTED' then d.counted_events + d.place end as event_no,
            d.counted_actions + 1 as first_no
        from (
            select s.*, row_number() over (partition by s.organization_id, s.account_id, s.status order by s.ord) as place
            from (
                select i.ord, i.organization_id, i.account_id, c.action_no as counted_actions, c.event_no as counted_events,
                    c.slot, coalesce(k.intent_id, i.intent_id) as intent_id, k.command_hash,
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
                        -- Before a replay, because that shows the action.
                        when i.own_only and i.action_type <> 'CREATE' and x.order_id is not null and not exists (
                            select 1 from intent_actions f
                            where f.organization_id = i.organization_id and f.account_id = i.account_id
                                and f.intent_id = i.intent_id and f.seq = 1
                                and f.principal_type = i.principal_type and f.principal_id = i.principal_id
                        ) then 'NOT_OWN'
                        when k.intent_id is not null then 'REPLAYED'
                        when i.idempotency_key is not null and row_number() over (
                            partition by i.organization_id, i.account_id, i.idempotency_key order by i.ord
                        ) > 1 then 'SAME_KEY_IN_SET'
                        when i.action_id < v_earliest_id or i.action_id > v_latest_id then 'CLOCK_SKEW'
                        when i.action_type <> 'CANCEL' and (
                            o.control_epoch is distinct from i.organization_epoch
                            or c.control_epoch is distinct from i.account_epoch
                        ) then 'STALE_CONTROLS'
                        when (
                            i.action_type in ('CREATE', 'REPLACE', 'CANCEL')
                            and i.principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM')
                        ) is not true then 'INVALID'
                        when i.action_type = 'CREATE' and (
                            x.order_id is null and are_order_terms(
                                i.symbol, i.order_side, i.order_type, i.quantity, i.limit_price, i.stop_price,
                                i.client_reference_id
                            )
                        ) is not true then 'INVALID'
                        when i.action_type = 'REPLACE' and (
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
                    p_organization_epoch, p_account_epoch, p_symbol, p_order_side, p_order_type, p_quantity, p_limit_price,
                    p_stop_price, p_client_reference_id, p_principal_type, p_principal_id, p_own_only
                ) with ordinality i (
                    action_id, intent_id, organization_id, account_id, action_type, idempotency_key,
                    organization_epoch, account_epoch, symbol, order_side, order_type, quantity, limit_price,
                    stop_price, client_reference_id, principal_type, principal_id, own_only, ord
                )
                left join account_counters c
                    on c.account_id = i.account_id and c.organization_id = i.organization_id
                left join organizations_named o on o.organization_id = i.organization_id
                -- By the command's own organization and account, not through the join of account_counters: on tables
                -- without statistics the planner read all keys of an account instead of one.
                left join idempotency_keys k on k.organization_id = i.organization_id and k.account_id = i.account_id
                    and k.key = i.idempotency_key
                left join orders x
                    on x.organization_id = i.organization_id and x.account_id = i.account_id and x.order_id = i.intent_id
                -- A second CANCEL counts as the first while that is queued or was sent less than five seconds ago.
                left join lateral (
                    select a.seq from action_states a
                    where v_refers and i.action_type = 'CANCEL' and a.account_id = x.account_id and a.intent_id = x.order_id
                        and a.action_type = 'CANCEL' and a.state not in ('FAILED', 'SKIPPED', 'REFUSED')
                        and (a.state = 'QUEUED' or a.send_started_at > v_now - interval '5 seconds')
                    order by a.seq desc limit 1
                ) cancel on true
            ) s
        ) d
        order by d.ord
    ) r;

    -- 3. A REPLACE or CANCEL takes the terms that it does not set from its order. A pending CANCEL outranks a REPLACE.
    if v_refers and 'ACCEPTED' = any (v_status) then
        select array_agg(s.symbol order by s.ord), array_agg(s.order_side order by s.ord),
            array_agg(s.order_type order by s.ord), array_agg(s.route_strategy order by s.ord),
            array_agg(s.quantity order by s.ord), array_agg(s.limit_price order by s.ord),
            array_agg(s.stop_price order by s.ord), array_agg(s.time_in_force order by s.ord)
        into v_symbol, v_order_side, v_order_type, v_route_strategy, v_quantity, v_limit_price, v_stop_price,
            v_time_in_force
        from (
            select t.ord, coalesce(x.symbol, t.symbol) as symbol, coalesce(x.order_side, t.order_side) as order_side,
                coalesce(x.order_type, t.order_type) as order_type,
                coalesce(x.route_strategy, t.route_strategy) as route_strategy,
                coalesce(t.quantity, x.quantity) as quantity, coalesce(t.limit_price, x.limit_price) as limit_price,
                coalesce(t.stop_price, x.stop_price) as stop_price,
                coalesce(t.time_in_force, kept.time_in_force, x.time_in_force) as time_in_force
            from unnest(
                p_action_type, p_organization_id, p_account_id, p_intent_id, p_symbol, p_order_side, p_order_type,
                p_route_strategy, p_quantity, p_limit_price, p_stop_price, p_time_in_force
            ) with ordinality t (
                action_type, organization_id, account_id, intent_id, symbol, order_side, order_type, route_strategy,
                quantity, limit_price, stop_price, time_in_force, ord
            )
            left join orders x on t.action_type <> 'CREATE' and x.organization_id = t.organization_id
                and x.account_id = t.account_id and x.order_id = t.intent_id
            -- A REPLACE without a time in force takes the one of the latest REPLACE that is not settled yet.
            left join lateral (
                select a.time_in_force from action_states u
                join intent_actions a on a.organization_id = x.organization_id and a.account_id = x.account_id
                    and a.intent_id = x.order_id and a.seq = u.seq
                where t.action_type = 'REPLACE' and t.time_in_force is null and u.account_id = x.account_id
                    and u.intent_id = x.order_id and u.action_type = 'REPLACE' and u.settled_at is null
                order by u.seq desc limit 1
            ) kept on true
        ) s;

        -- A new version in any case: an executor that remembers the order must see the later action.
        update orders x
        set version = x.version + 1, updated_at = v_now, pending = case
            when x.pending = 'NONE' or (x.pending = 'REPLACE' and t.action_type = 'CANCEL') then t.action_type
            else x.pending
        end
        from unnest(v_status, p_action_type, p_organization_id, p_account_id, p_intent_id)
            t (status, action_type, organization_id, account_id, intent_id)
        where t.status = 'ACCEPTED' and t.action_type in ('REPLACE', 'CANCEL') and x.organization_id = t.organization_id
            and x.account_id = t.account_id and x.order_id = t.intent_id;
    end if;

    -- 4. Write: one small insert per table.
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

        -- The hashes over each record's canonical bytes, in one piece; a UUID has 36 characters.
        select array_agg(
            sha256(convert_to(
                concat(
                    '36:', t.action_id, '36:', t.intent_id, '36:', t.account_id, '36:', t.organization_id,
                    canonical_field(t.action_no::text), canonical_field(t.seq::text), canonical_field(t.action_type),
                    canonical_field(t.symbol), canonical_field(t.order_side), canonical_field(t.order_type),
                    canonical_field(t.route_strategy), canonical_field(t.quantity::text),
                    canonical_field(t.limit_price::text), canonical_field(t.stop_price::text),
                    canonical_field(t.time_in_force), canonical_field(t.client_reference_id),
                    canonical_field(t.principal_type), canonical_field(t.principal_id), '36:', t.receipt_id, v_moment
                ),
                'UTF8'
            ))
        ), array_agg(sha256(convert_to(t.receipt, 'UTF8')))
        into v_hash, v_receipt_hash
        from unnest(
            v_seq, v_action_no, p_action_id, p_intent_id, p_receipt_id, p_organization_id, p_account_id, p_action_type,
            v_symbol, v_order_side, v_order_type, v_route_strategy, v_quantity, v_limit_price, v_stop_price,
            v_time_in_force, p_client_reference_id, p_principal_type, p_principal_id, p_receipt
        ) t (
            seq, action_no, action_id, intent_id, receipt_id, organization_id, account_id, action_type,
            symbol, order_side, order_type, route_strategy, quantity, limit_price, stop_price,
            time_in_force, client_reference_id, principal_type, principal_id, receipt
        );

        insert into intent_actions (
            organization_id, account_id, intent_id, seq, action_id, action_no, chained_from, action_type, symbol,
            order_side, order_type, route_strategy, quantity, limit_price, stop_price, time_in_force,
            client_reference_id, principal_type, principal_id, receipt_id, created_at, hash
        )
        select t.organization_id, t.account_id, t.intent_id, t.seq, t.action_id, t.action_no, t.first_no,
            t.action_type, t.symbol, t.order_side, t.order_type, t.route_strategy, t.quantity, t.limit_price,
            t.stop_price, t.time_in_force, t.client_reference_id, t.principal_type, t.principal_id, t.receipt_id,
            v_now, t.hash
        from unnest(
            v_status, v_seq, v_action_no, v_first_no, p_action_id, p_intent_id, p_receipt_id, p_organization_id,
            p_account_id, p_action_type, v_symbol, v_order_side, v_order_type, v_route_strategy, v_quantity,
            v_limit_price, v_stop_price, v_time_in_force, p_client_reference_id, p_principal_type, p_principal_id, v_hash
        ) t (
            status, seq, action_no, first_no, action_id, intent_id, receipt_id, organization_id,
            account_id, action_type, symbol, order_side, order_type, route_strategy, quantity,
            limit_price, stop_price, time_in_force, client_reference_id, principal_type, principal_id, hash
        )
        where t.status = 'ACCEPTED';

        insert into receipts (organization_id, account_id, receipt_id, intent_id, seq, verdict, body, hash, created_at)
        select t.organization_id, t.account_id, t.receipt_id, t.intent_id, t.seq, 'PASSED', t.receipt, t.hash, v_now
        from unnest(
            v_status, v_seq, p_organization_id, p_account_id, p_receipt_id, p_intent_id, p_receipt, v_receipt_hash
        ) t (status, seq, organization_id, account_id, receipt_id, intent_id, receipt, hash)
        where t.status = 'ACCEPTED';

        update account_counters c
        set action_no = g.last_no, event_no = c.event_no + g.actions, chain_head = sha256(c.chain_head || g.hashes)
        from (
            select t.account_id, max(t.action_no) as last_no, count(*) as actions,
                string_agg(t.hash || t.receipt_hash, ''::bytea order by t.action_no) as hashes
            from unnest(v_status, p_account_id, v_action_no, v_hash, v_receipt_hash)
                t (status, account_id, action_no, hash, receipt_hash)
            where t.status = 'ACCEPTED'
            group by t.account_id
        ) g
        where c.account_id = g.account_id;

        insert into action_states (
            organization_id, account_id, action_id, intent_id, seq, action_no, action_type, slot, state, queued_at,
            updated_at
        )
        select t.organization_id, t.account_id, t.action_id, t.intent_id, t.seq, t.action_no, t.action_type, t.slot,
            'QUEUED', v_now, v_now
        from unnest(
            v_status, v_seq, v_action_no, v_slot, p_organization_id, p_account_id, p_action_id, p_intent_id, p_action_type
        ) t (status, seq, action_no, slot, organization_id, account_id, action_id, intent_id, action_type)
        where t.status = 'ACCEPTED';

        insert into intent_outbox (organization_id, account_id, slot, action_id, available_at, created_at)
        select t.organization_id, t.account_id, t.slot, t.action_id, v_now, v_now
        from unnest(v_status, v_slot, p_organization_id, p_account_id, p_action_id)
            with ordinality t (status, slot, organization_id, account_id, action_id, ord)
        where t.status = 'ACCEPTED'
        order by t.ord;

        insert into account_events (organization_id, account_id, event_no, kind, intent_id, seq, occurred_at)
        select t.organization_id, t.account_id, t.event_no, 1, t.intent_id, t.seq, v_now
        from unnest(v_status, v_seq, v_event_no, p_organization_id, p_account_id, p_intent_id)
            t (status, seq, event_no, organization_id, account_id, intent_id)
        where t.status = 'ACCEPTED';
    end if;

    -- 5. A command that was not accepted may be sent again under its key; one that has an action may not.
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

call run_as('openbell_writer', 'accept_commands', 'openbell_accept');
