-- Accepting one command: a CREATE alone, the common case at low load.

-- One field of a record's canonical bytes: its length in bytes, a colon, the text; a dash where there is no value.
create function canonical_field(field text) returns text language sql immutable parallel safe as
$$ select coalesce(octet_length(field)::text || ':' || field, '-') $$;

-- The milliseconds since 1970 inside a UUIDv7.
create function uuid7_milliseconds(id uuid) returns bigint language sql immutable strict parallel safe as
$$ select ('x' || substr(replace(id::text, '-', ''), 1, 12))::bit(48)::bigint $$;

-- Decides and writes what accept_commands does for a batch of one CREATE: a statement over arrays costs more to start than
-- one row costs to write.
create function accept_create(
    p_action_id uuid, p_intent_id uuid, p_receipt_id uuid, p_organization_id uuid, p_account_id uuid,
    p_idempotency_key text, p_command_hash bytea, p_organization_epoch bigint, p_account_epoch bigint,
    p_symbol text, p_order_side text, p_order_type text, p_route_strategy text,
    p_quantity numeric, p_limit_price numeric, p_stop_price numeric, p_time_in_force text,
    p_client_reference_id text, p_principal_type text, p_principal_id text, p_receipt text,
    out ord integer, out status text, out intent_id uuid, out seq integer, out action_no bigint, out command_hash bytea,
    out created_at timestamptz
) language plpgsql as $$
#variable_conflict use_column
declare
    v_account account_counters;
    v_organization_epoch bigint;
    v_millis bigint;
    v_now timestamptz;
    v_no bigint;
    v_hash bytea;
    v_receipt_hash bytea := sha256(convert_to(p_receipt, 'UTF8'));
begin
    -- 1. The account's lock. The clock is read after it: commit order and times agree.
    select c.* into v_account from account_counters c
    where c.account_id = p_account_id and c.organization_id = p_organization_id for no key update;
    v_now := clock_timestamp();
    v_millis := (extract(epoch from v_now) * 1000)::bigint;
    ord := 1;
    intent_id := p_intent_id;
    seq := 1;
    created_at := v_now;

    -- 2. The decision. Writing the order also decides: an id that is taken makes the command invalid.
    select o.control_epoch into v_organization_epoch from organizations o where o.organization_id = p_organization_id;
    if v_account.account_id is null or not found then
        status := 'NOT_FOUND';
        return;
    end if;
    if p_idempotency_key is not null then
        select k.intent_id, k.seq, k.command_hash, 'REPLAYED' into intent_id, seq, command_hash, status
        from idempotency_keys k where k.account_id = p_account_id and k.key = p_idempotency_key;
        if found then
            return;
        end if;
        intent_id := p_intent_id;
        seq := 1;
    end if;
    if uuid7_milliseconds(p_action_id) not between v_millis - 300000 and v_millis + 300000 then
        status := 'CLOCK_SKEW';
    elsif v_organization_epoch is distinct from p_organization_epoch
        or v_account.control_epoch is distinct from p_account_epoch then
        status := 'STALE_CONTROLS';
    elsif (
        are_order_terms(
            p_symbol, p_order_side, p_order_type, p_quantity, p_limit_price, p_stop_price, p_client_reference_id
        )
        and p_principal_type in ('API_KEY', 'USER', 'SERVICE', 'SYSTEM')
    ) is not true then
        status := 'INVALID';
    else
        insert into orders (
            organization_id, account_id, order_id, symbol, order_side, order_type, route_strategy, quantity, limit_price,
            stop_price, time_in_force, client_reference_id, created_at, updated_at
        )
        values (
            p_organization_id, p_account_id, p_intent_id, p_symbol, p_order_side, p_order_type, p_route_strategy,
            p_quantity, p_limit_price, p_stop_price, p_time_in_force, p_client_reference_id, v_now, v_now
        )
        on conflict (organization_id, account_id, order_id) do nothing;
        status := case when found then 'ACCEPTED' else 'INVALID' end;
    end if;
    if status <> 'ACCEPTED' then
        return;
    end if;

    -- 3. The hash over the record's canonical bytes, in one piece; a UUID has 36 characters.
    v_no := v_account.action_no + 1;
    action_no := v_no;
    v_hash := sha256(convert_to(
        concat(
            '36:', p_action_id, '36:', p_intent_id, '36:', p_account_id, '36:', p_organization_id,
            canonical_field(v_no::text), '1:1', '6:CREATE', canonical_field(p_symbol), canonical_field(p_order_side),
            canonical_field(p_order_type), canonical_field(p_route_strategy), canonical_field(p_quantity::text),
            canonical_field(p_limit_price::text), canonical_field(p_stop_price::text), canonical_field(p_time_in_force),
            canonical_field(p_client_reference_id), canonical_field(p_principal_type), canonical_field(p_principal_id),
            '36:', p_receipt_id, canonical_field((extract(epoch from v_now) * 1000000)::bigint::text)
        ),
        'UTF8'
    ));

    -- 4. One insert per table.
    insert into intent_actions (
        organization_id, account_id, intent_id, seq, action_id, action_no, chained_from, action_type, symbol,
        order_side, order_type, route_strategy, quantity, limit_price, stop_price, time_in_force,
        client_reference_id, principal_type, principal_id, receipt_id, created_at, hash
    )
    values (
        p_organization_id, p_account_id, p_intent_id, 1, p_action_id, v_no, v_no, 'CREATE', p_symbol,
        p_order_side, p_order_type, p_route_strategy, p_quantity, p_limit_price, p_stop_price, p_time_in_force,
        p_client_reference_id, p_principal_type, p_principal_id, p_receipt_id, v_now, v_hash
    );
    insert into receipts (organization_id, account_id, receipt_id, intent_id, seq, verdict, body, hash, created_at)
    values (p_organization_id, p_account_id, p_receipt_id, p_intent_id, 1, 'PASSED', p_receipt, v_receipt_hash, v_now);
    update account_counters c
    set action_no = v_no, event_no = c.event_no + 1, chain_head = sha256(c.chain_head || v_hash || v_receipt_hash)
    where c.account_id = p_account_id;
    insert into action_states (
        organization_id, account_id, action_id, intent_id, seq, action_no, action_type, slot, state, queued_at, updated_at
    )
    values (
        p_organization_id, p_account_id, p_action_id, p_intent_id, 1, v_no, 'CREATE', v_account.slot, 'QUEUED', v_now, v_now
    );
    insert into intent_outbox (organization_id, account_id, slot, action_id, available_at, created_at)
    values (p_organization_id, p_account_id, v_account.slot, p_action_id, v_now, v_now);
    insert into account_events (organization_id, account_id, event_no, kind, intent_id, seq, occurred_at)
    values (p_organization_id, p_account_id, v_account.event_no + 1, 1, p_intent_id, 1, v_now);
    if p_idempotency_key is not null then
        insert into idempotency_keys (organization_id, account_id, key, command_hash, intent_id, seq, created_at)
        values (p_organization_id, p_account_id, p_idempotency_key, p_command_hash, p_intent_id, 1, v_now);
    end if;
end $$;

-- Only accept_commands calls it, with the rights of openbell_writer.
revoke execute on function accept_create from public;
grant execute on function accept_create to openbell_writer;
