-- name: lock_account(organization_id, account_id)^
-- The account's lock: accept, doors, outcomes and reports of one account never overlap. The account is held if the database
-- was restored, detected or not, and the account was not reconciled since.
-- The shared advisory locks stop a change of rules of the organization or the platform until this transaction ends. They
-- come before the account's lock to avoid deadlocks.
with doors as materialized (
    select pg_advisory_xact_lock_shared(hashtextextended(:organization_id::uuid::text, 7)),
        pg_advisory_xact_lock_shared(hashtextextended('00000000-0000-0000-0000-000000000000', 7))
)
select clock_timestamp() as now, c.control_epoch, i.epoch, i.held_at, i.look_back_to,
    not i.is_this or c.recovered_epoch <> i.epoch as held, c.halt_code
from doors, account_counters c, this_incarnation i
where c.organization_id = :organization_id and c.account_id = :account_id
for no key update of c;

-- name: last_reconciliation(organization_id, account_id)^
select event_no, reconciled_at, resumed_at from account_counters
where organization_id = :organization_id and account_id = :account_id;

-- name: open_orders(organization_id, account_id, row_limit)
-- Orders that the broker may have, each as its CREATE action.
select * from open_orders
where organization_id = :organization_id and account_id = :account_id and state <> 'QUEUED'
order by action_no
limit :row_limit;

-- name: standing(organization_id, account_id)^
select credential_version, credential_status from accounts
where organization_id = :organization_id and account_id = :account_id;

-- name: superseded(organization_id, account_id, row_limit)
-- Actions that a queued cancel makes obsolete: unsent replaces before it, and an unsent create together with the cancel.
with cancels as materialized (
    select k.intent_id, k.seq, c.state = 'QUEUED' as is_unsent
    from action_states k
    cross join lateral (
        select c.state from action_states c
        where c.account_id = :account_id and c.intent_id = k.intent_id and c.seq = 1
        limit 1
    ) c
    where k.organization_id = :organization_id and k.account_id = :account_id and k.settled_at is null
        and k.action_type = 'CANCEL' and k.state = 'QUEUED'
        and (
            c.state = 'QUEUED'
            or k.seq > 2 and exists (
                select 1 from (
                    select r.action_type, r.state from action_states r
                    where r.account_id = :account_id and r.intent_id = k.intent_id and r.seq < k.seq
                    order by r.intent_id, r.seq
                    offset 0
                ) r
                where r.action_type = 'REPLACE' and r.state = 'QUEUED'
            )
        )
    order by k.action_no
    limit :row_limit
)
select t.*
from cancels k
cross join lateral (
    -- Apart from settled_at, so that the planner does not read all unsettled actions of the account instead.
    select * from tracked_actions
    where organization_id = :organization_id and account_id = :account_id and intent_id = k.intent_id and seq <= k.seq
    order by intent_id, seq
    offset 0
) t
where t.settled_at is null and t.state = 'QUEUED' and (k.is_unsent or t.action_type = 'REPLACE')
order by t.action_no;

-- name: ready_cancels(organization_id, account_id, cancels_unseen, row_limit)
-- An earlier UNKNOWN action does not delay the cancel, except a CREATE whose order the broker cannot cancel unseen.
select * from tracked_actions t
where t.organization_id = :organization_id and t.account_id = :account_id and t.settled_at is null
    and t.action_type = 'CANCEL' and t.state = 'QUEUED'
    and (
        not t.earlier_unsettled
        or not exists (
            select 1 from action_states e
            where e.organization_id = :organization_id and e.account_id = :account_id and e.intent_id = t.intent_id
                and e.seq < t.seq and e.settled_at is null
                and (e.state <> 'UNKNOWN' or (e.action_type = 'CREATE' and not :cancels_unseen::boolean))
        )
    )
order by t.action_no
limit :row_limit;

-- name: ready_others(organization_id, account_id, row_limit)
-- With the facts for the check at the door, read under the account's lock. Each `limit 1` forces a look-up by key, however
-- many rows the planner expects.
with ready as materialized (
    select * from tracked_actions
    where organization_id = :organization_id and account_id = :account_id and settled_at is null
        and action_type <> 'CANCEL' and state = 'QUEUED' and not earlier_unsettled
    order by action_no
    limit :row_limit
)
select r.*, clock_timestamp() as now, s.queued_at, s.deadline, i.principal_type, i.principal_id, a.environment,
    o.control_epoch as organization_epoch, c.control_epoch as account_epoch, o.disabled as organization_disabled,
    a.disabled as account_disabled,
    (
        select k.revoked_at from api_keys k
        where k.organization_id = :organization_id and k.api_key_id = case
            when i.principal_type = 'API_KEY' and i.principal_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                then i.principal_id::uuid
        end
    ) is not null as principal_revoked
from ready r
cross join lateral (
    select queued_at, deadline from action_states
    where organization_id = :organization_id and account_id = :account_id and action_id = r.action_id
    limit 1
) s
cross join lateral (
    select principal_type, principal_id from intent_actions
    where organization_id = :organization_id and account_id = :account_id and intent_id = r.intent_id and seq = r.seq
    limit 1
) i
join organizations o on o.organization_id = :organization_id
join accounts a on a.organization_id = :organization_id and a.account_id = :account_id
join account_counters c on c.organization_id = :organization_id and c.account_id = :account_id
order by r.action_no;

-- name: in_doubt(organization_id, account_id, row_limit)
select * from tracked_actions
where organization_id = :organization_id and account_id = :account_id and settled_at is null
    and state in ('DISPATCHING', 'UNKNOWN')
order by action_no
limit :row_limit;

-- name: one_queued(organization_id, account_id)^
select action_id from action_states
where organization_id = :organization_id and account_id = :account_id and settled_at is null and state = 'QUEUED'
limit 1;

-- name: one_queued_cancel(organization_id, account_id)^
select action_id from action_states
where organization_id = :organization_id and account_id = :account_id and settled_at is null and state = 'QUEUED'
    and action_type = 'CANCEL'
limit 1;

-- name: of_intents(organization_id, account_id, intent_ids)
select t.*
from (select distinct intent_id from unnest(:intent_ids::uuid[]) i (intent_id)) i
cross join lateral (
    select * from tracked_actions
    where organization_id = :organization_id and account_id = :account_id and intent_id = i.intent_id
    order by intent_id, seq
    offset 0
) t
order by t.intent_id, t.seq;

-- name: replacements(organization_id, account_id, intent_ids)
-- The terms of the replaces of these intents.
select action_id, quantity, limit_price, stop_price, time_in_force from intent_actions
where organization_id = :organization_id and account_id = :account_id and intent_id = any(:intent_ids::uuid[])
    and action_type = 'REPLACE';

-- name: intents_of(organization_id, account_id, action_ids)
select action_id, intent_id from action_states
where organization_id = :organization_id and account_id = :account_id and action_id = any(:action_ids::uuid[])
union all
select known_as, intent_id from action_states
where organization_id = :organization_id and account_id = :account_id and known_as = any(:action_ids::uuid[]);

-- name: adopt_forgotten_orders(organization_id, account_id, action_ids)
-- A command that was repeated after a restore: the broker has its order under the id of the lost action. An order is
-- adopted once.
update action_states s set known_as = f.action_id, updated_at = clock_timestamp()
from forgotten_orders f
where s.organization_id = :organization_id and s.account_id = :account_id and s.action_id = any(:action_ids::uuid[])
    and f.organization_id = :organization_id and f.account_id = :account_id
    and f.command_digest = substr(s.action_id::text, 16)
    and not exists (
        select 1 from action_states k
        where k.organization_id = :organization_id and k.account_id = :account_id and k.known_as = f.action_id
    )
returning s.action_id, s.known_as;

-- name: add_forgotten_orders(organization_id, account_id, action_ids)!
insert into forgotten_orders (organization_id, account_id, action_id, found_at)
select :organization_id, :account_id, t.action_id, clock_timestamp() from unnest(:action_ids::uuid[]) t (action_id)
on conflict (account_id, action_id) do nothing;

-- name: end_hold(organization_id, account_id, epoch)!
update account_counters set recovered_epoch = :epoch
where organization_id = :organization_id and account_id = :account_id;

-- name: open_doors(organization_id, account_id, action_ids, attempt_id)
-- The door: only one executor gets the row, and only that executor may send the action to the broker.
update action_states
set state = 'DISPATCHING', attempt_id = :attempt_id, send_started_at = clock_timestamp(), updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and action_id = any(:action_ids::uuid[])
    and state = 'QUEUED'
returning action_id, send_started_at;

-- name: save_action(organization_id, account_id, action_id, previous, state, reason_code, broker_code, broker_text, settled)!
update action_states
set state = :state, reason_code = :reason_code, broker_code = :broker_code, broker_text = left(:broker_text, 500),
    unknown_since = case when :state = 'UNKNOWN' then clock_timestamp() else unknown_since end,
    settled_at = case when :settled::boolean then clock_timestamp() end,
    updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id and state = :previous;

-- name: add_probe(organization_id, account_id, action_id, asked_at, found)!
-- Stores at most fifty look-ups.
update action_states
set probes = case when jsonb_array_length(probes) >= 50 then probes - 0 else probes end
        || jsonb_build_array(jsonb_build_object('at', :asked_at::timestamptz, 'found', :found::boolean)),
    updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and action_id = :action_id;

-- name: save_order(organization_id, account_id, order_id, quantity, limit_price, stop_price, time_in_force, filled_quantity, filled_value, standing, close_reason, pending, certainty, broker_order_ids)!
update orders
set quantity = :quantity, limit_price = :limit_price, stop_price = :stop_price, time_in_force = :time_in_force,
    filled_quantity = :filled_quantity, filled_value = :filled_value, standing = :standing, close_reason = :close_reason,
    pending = :pending, certainty = :certainty, broker_order_ids = :broker_order_ids, version = version + 1,
    updated_at = clock_timestamp()
where organization_id = :organization_id and account_id = :account_id and order_id = :order_id;

-- name: add_executions(organization_id, account_id, order_id, execution_ids, quantities, prices, fees, executed_ats)
insert into executions (
    organization_id, account_id, execution_id, order_id, quantity, price, fee, executed_at, recorded_at
)
select :organization_id::uuid, :account_id::uuid, t.execution_id, :order_id::uuid, t.quantity, t.price, t.fee,
    t.executed_at, clock_timestamp()
from orders o
cross join unnest(
    :execution_ids::text[], :quantities::numeric[], :prices::numeric[], :fees::numeric[], :executed_ats::timestamptz[]
) t (execution_id, quantity, price, fee, executed_at)
where o.organization_id = :organization_id and o.account_id = :account_id and o.order_id = :order_id
on conflict (account_id, execution_id) do nothing
returning execution_id;

-- name: add_to_position(organization_id, account_id, symbol, change, cause, intent_id, value, average_price)$
with held as (
    insert into positions (organization_id, account_id, symbol, quantity, updated_at)
    values (:organization_id, :account_id, :symbol, :change, clock_timestamp())
    on conflict (account_id, symbol)
    do update set quantity = positions.quantity + excluded.quantity, updated_at = excluded.updated_at
    where positions.organization_id = :organization_id
    returning quantity, updated_at
), recorded as (
    insert into position_changes (
        organization_id, account_id, symbol, cause, intent_id, change, quantity, value, average_price, changed_at
    )
    select :organization_id, :account_id, :symbol, :cause, :intent_id, :change, quantity, :value::numeric,
        :average_price::numeric, updated_at
    from held
    where :change <> 0
)
select quantity from held;

-- name: append_events(organization_id, account_id, kinds, intent_ids, seqs, bodies)!
select append_events(
    :organization_id, :account_id, :kinds::smallint[], :intent_ids::uuid[], :seqs::integer[], :bodies::text[]
);

-- name: find_account_across_organizations(account_id)^
select organization_id, account_id, broker, slot from accounts where account_id = :account_id;

-- name: accounts_waiting_across_organizations(slots, older_than_seconds)
select distinct account_id from action_states
where settled_at is null and state = 'QUEUED' and slot = any(:slots::smallint[])
    and queued_at < clock_timestamp() - make_interval(secs => :older_than_seconds)
limit 1000;

-- name: accounts_in_doubt_across_organizations(slots, stuck_after_seconds)
-- A look-up without a result is repeated every second for 20 seconds after the send, then after a quarter of the time
-- since the send, at most 30 seconds.
select distinct account_id from action_states
where settled_at is null and slot = any(:slots::smallint[])
    and (
        (state = 'DISPATCHING' and send_started_at < clock_timestamp() - make_interval(secs => :stuck_after_seconds))
        or (
            state = 'UNKNOWN' and updated_at < clock_timestamp()
                - case
                    when send_started_at > clock_timestamp() - interval '20 seconds' then interval '1 second'
                    else least(interval '30 seconds', (clock_timestamp() - send_started_at) / 4)
                end
        )
    )
limit 1000;

-- name: accounts_held_across_organizations(slots, settle_seconds)
select c.account_id from incarnation i
join account_counters c on c.recovered_epoch < i.epoch and c.slot = any(:slots::smallint[])
where i.held_at < clock_timestamp() - make_interval(secs => :settle_seconds)
limit 1000;

-- name: accounts_with_open_orders_across_organizations(broker, slots)
-- Accounts with an order that the broker may have. Each account's open orders are looked up in its own index.
select a.organization_id, a.account_id, a.broker, a.slot
from accounts a
where a.broker = :broker and a.slot = any(:slots::smallint[])
    and exists (
        select 1
        from (
            select o.order_id from orders o
            where o.account_id = a.account_id and o.standing <> 'CLOSED'
            order by o.account_id, o.order_id
            offset 0
        ) o
        cross join lateral (
            select s.state from action_states s
            where s.account_id = a.account_id and s.intent_id = o.order_id and s.seq = 1
            limit 1
        ) s
        where s.state <> 'QUEUED'
    );
