-- name: account_of_book(organization_id, account_id)^
-- Read the epochs before the rules, so the rules are never older than their epochs.
select a.account_id, a.broker, a.environment, a.timezone, o.control_epoch as organization_epoch, c.control_epoch as account_epoch,
    o.paper_enforcement
from accounts a
join organizations o on o.organization_id = a.organization_id
join account_counters c on c.organization_id = a.organization_id and c.account_id = a.account_id
where a.organization_id = :organization_id and a.account_id = :account_id;

-- name: organization_of_book(organization_id)$
select control_epoch from organizations where organization_id = :organization_id;

-- name: symbol_controls_of_account(organization_id, account_id, row_limit)
-- Both controls of every symbol; times is the time control as JSON, null if there is none.
select coalesce(m.symbol, w.symbol) as symbol, m.manually_disabled, m.manual_reason, m.version as manual_version,
    to_jsonb(w) as times
from (
    select * from symbol_controls where organization_id = :organization_id and account_id = :account_id
) m
full join (
    select * from symbol_time_controls where organization_id = :organization_id and account_id = :account_id
) w on w.symbol = m.symbol
limit :row_limit;

-- name: rules_of_account(organization_id, account_id, platform_id, row_limit)
-- All rules that can apply to a command of the account: the platform's, the organization's, its keys' and the account's;
-- without an account those of the others.
(
    select * from control_rules
    where organization_id = :platform_id and (terms is not null or override_terms is not null)
)
union all
(
    select * from control_rules
    where organization_id = :organization_id and scope = 'ORGANIZATION'
        and (terms is not null or override_terms is not null)
)
union all
(
    -- Not those of keys that are limited to other accounts.
    select r.* from control_rules r
    where r.organization_id = :organization_id and r.scope = 'KEY' and (r.terms is not null or r.override_terms is not null)
        and (:account_id::uuid is null or not exists (
            select 1 from api_keys k
            where k.organization_id = r.organization_id and k.api_key_id::text = r.subject
                and not :account_id::uuid = any(k.account_ids)
        ))
)
union all
(
    select * from control_rules
    where organization_id = :organization_id and of_account = :account_id
        and (terms is not null or override_terms is not null)
)
limit :row_limit;
