-- part: desk_command
d.desk_command_id, d.command_no, d.command_type, d.symbol, d.api_key_id, d.idempotency_key, d.command_hash,
    d.principal_type, d.principal_id, d.orders, d.external_orders, d.created_at, d.ended_at, d.failed, d.reason, d.detail,
    d.receipt_id, k.intent_id as closing_intent_id, x.close_reason as closing_close_reason,
    x.certainty as closing_certainty,
    -- Only while it has not ended: its orders may be many.
    d.ended_at is null and exists (
        select 1 from desk_command_orders i
        join orders o on o.organization_id = i.organization_id and o.account_id = i.account_id and o.order_id = i.order_id
        where i.account_id = d.account_id and i.desk_command_id = d.desk_command_id and o.certainty = 'UNKNOWN'
    ) as has_unknown
from desk_commands d
-- Its closing order.
left join idempotency_keys k on k.organization_id = d.organization_id and k.account_id = d.account_id
    and k.key = 'desk_command ' || d.desk_command_id::text and d.command_type = 'CLOSE_POSITION'
left join orders x on x.organization_id = k.organization_id and x.account_id = k.account_id and x.order_id = k.intent_id

-- part: last_cancel
left join lateral (
    select s.state, s.reason_code from action_states s
    where o.standing <> 'CLOSED' and s.account_id = o.account_id and s.intent_id = o.order_id and s.action_type = 'CANCEL'
    order by s.seq desc limit 1
) c on true

-- name: add_desk_command(organization_id, account_id, desk_command_id, command_type, symbol, api_key_id, idempotency_key, command_hash, principal_type, principal_id)$
-- Under the account's lock, so every order that the account has is included or was accepted later. Returns no value if the
-- organization has no such API key.
with chosen as materialized (
    select row_number() over (order by o.created_at, o.order_id) as place, o.order_id
    from orders o
    where o.organization_id = :organization_id and o.account_id = :account_id and o.standing <> 'CLOSED'
        and (:symbol::text is null or o.symbol = :symbol)
        and (:api_key_id::uuid is null or exists (
            select 1 from intent_actions i
            where i.organization_id = o.organization_id and i.account_id = o.account_id and i.intent_id = o.order_id
                and i.seq = 1 and i.principal_type = 'API_KEY' and i.principal_id = :api_key_id::uuid::text
        ))
),
added as (
    insert into desk_commands (
        organization_id, account_id, desk_command_id, command_type, symbol, api_key_id, idempotency_key, command_hash,
        principal_type, principal_id, orders, external_orders, created_at
    )
    select :organization_id, :account_id, :desk_command_id, :command_type, :symbol, :api_key_id::uuid, :idempotency_key,
        :command_hash, :principal_type, :principal_id, (select count(*) from chosen),
        (
            -- None of these was created by a key.
            select count(*) from external_orders e
            where e.organization_id = :organization_id and e.account_id = :account_id and :api_key_id::uuid is null
                and e.status in ('WORKING', 'DONE_FOR_DAY') and (:symbol::text is null or e.symbol = :symbol)
        ),
        clock_timestamp()
    where :api_key_id::uuid is null or exists (
        select 1 from api_keys a where a.organization_id = :organization_id and a.api_key_id = :api_key_id::uuid
    )
    returning desk_command_id
),
listed as (
    insert into desk_command_orders (organization_id, account_id, desk_command_id, place, order_id)
    select :organization_id, :account_id, a.desk_command_id, c.place, c.order_id from added a cross join chosen c
)
select desk_command_id from added;

-- name: find_desk_command(organization_id, account_id, desk_command_id, idempotency_key)^
-- The command with this id, or the one that was submitted under this key.
select {desk_command}
where d.organization_id = :organization_id and d.account_id = :account_id
    and (:desk_command_id::uuid is null or d.desk_command_id = :desk_command_id)
    and (:idempotency_key::text is null or d.idempotency_key = :idempotency_key);

-- name: list_desk_commands(organization_id, account_id, before_no, row_limit)
select {desk_command}
where d.organization_id = :organization_id and d.account_id = :account_id
    and (:before_no::bigint is null or d.command_no < :before_no)
order by d.command_no desc
limit :row_limit;

-- name: count_desk_outcomes(organization_id, account_id, desk_command_id)
select o.close_reason, o.certainty, c.state as last_cancel, count(*) as orders
from desk_command_orders i
join orders o on o.organization_id = i.organization_id and o.account_id = i.account_id and o.order_id = i.order_id
{last_cancel}
where i.organization_id = :organization_id and i.account_id = :account_id and i.desk_command_id = :desk_command_id
group by o.close_reason, o.certainty, c.state;

-- name: list_desk_orders(organization_id, account_id, desk_command_id, after, row_limit)
select i.place, i.order_id, o.symbol, o.close_reason, o.certainty, o.filled_quantity, o.updated_at,
    c.state as last_cancel, c.reason_code, k.cancels
from desk_command_orders i
join orders o on o.organization_id = i.organization_id and o.account_id = i.account_id and o.order_id = i.order_id
{last_cancel}
cross join lateral (
    select count(*) as cancels from intent_actions a
    where a.organization_id = i.organization_id and a.account_id = i.account_id and a.intent_id = i.order_id
        and a.action_type = 'CANCEL' and a.principal_type = 'SYSTEM'
        and a.principal_id = 'desk_command:' || i.desk_command_id::text
) k
where i.organization_id = :organization_id and i.account_id = :account_id and i.desk_command_id = :desk_command_id
    and i.place > :after
order by i.place
limit :row_limit;
