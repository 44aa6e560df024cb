-- name: organization_standing(organization_id)^
select name, disabled, entitlements from organizations where organization_id = :organization_id;

-- name: take_turn(whose)^
-- Serializes changes of the platform's rules, so concurrent changes do not deadlock on the organizations' rows.
select pg_advisory_xact_lock(hashtextextended(:whose::uuid::text, 8));

-- name: begin_organization_epoch(organization_id)$
-- The accept step rejects commands that were evaluated at an earlier epoch. The row lock serializes changes of rules.
update organizations set control_epoch = control_epoch + 1 where organization_id = :organization_id
returning control_epoch;

-- name: begin_epochs_across_organizations()^
select begin_every_epoch();

-- name: shut_doors(whose)^
-- Open doors hold this lock shared. Once this transaction holds it, the next door to open reads what it commits. Run it late,
-- so that doors wait little, but before the entry of the audit log, for which an open door may wait.
select pg_advisory_xact_lock(hashtextextended(:whose::uuid::text, 7));

-- name: put_in_force(organization_id, scope, of_whom, code)$
-- Takes the same lock, then sets the rule's time: from that time on, no door opens that the rule forbids.
with turn as materialized (
    select pg_advisory_xact_lock(hashtextextended(:organization_id::uuid::text, 7))
),
moment as materialized (select clock_timestamp() as now from turn)
update control_rules r set updated_at = m.now from moment m
where r.organization_id = :organization_id and r.scope = :scope and r.subject = :of_whom and r.code = :code
returning r.updated_at;

-- name: find_rule(organization_id, scope, of_whom, code)^
-- Also a removed rule; an expired override is returned as null.
select r.code, r.terms, r.version, r.reason, r.created_at, r.updated_at, r.principal_type, r.principal_id,
    case when r.override_expires_at > t.now then r.override_terms end as override_terms,
    case when r.override_expires_at > t.now then r.override_expires_at end as override_expires_at
from control_rules r, clock_timestamp() t (now)
where r.organization_id = :organization_id and r.scope = :scope and r.subject = :of_whom and r.code = :code;

-- name: list_rules(organization_id, scope, account_id, of_whom, environment, account_ids, own_key, switches, after_number, row_limit)
-- Values that are null do not filter. A caller of one environment does not see accounts and keys of the other.
select r.number, r.scope, r.subject, r.of_account, r.code, r.terms, r.version, r.reason, r.created_at, r.updated_at,
    r.principal_type, r.principal_id,
    case when r.override_expires_at > t.now then r.override_terms end as override_terms,
    case when r.override_expires_at > t.now then r.override_expires_at end as override_expires_at
from control_rules r
cross join clock_timestamp() t (now)
left join accounts a on a.organization_id = r.organization_id and a.account_id = r.of_account
left join api_keys k on r.scope = 'KEY' and k.organization_id = r.organization_id and k.api_key_id::text = r.subject
where r.organization_id = :organization_id and r.number > :after_number
    and (:scope::text is null or r.scope = :scope)
    and (:account_id::uuid is null or r.of_account = :account_id)
    and (:of_whom::text is null or r.subject = :of_whom)
    and (:switches::boolean is null or (r.code = 'SWITCH') = :switches)
    and (:environment::text is null or coalesce(a.environment, k.environment, :environment) = :environment)
    and (:account_ids::uuid[] is null or (
        (r.of_account is null or r.of_account = any(:account_ids::uuid[])) and (r.scope <> 'KEY' or r.subject = :own_key)
    ))
    and (r.terms is not null or r.override_expires_at > t.now)
order by r.number limit :row_limit;

-- name: save_rule(organization_id, scope, of_whom, code, account_id, terms, override_terms, override_expires_at, reason, principal_type, principal_id)^
-- If the rule was removed before, its version continues and created_at is set again.
insert into control_rules (
    organization_id, scope, subject, code, of_account, terms, override_terms, override_expires_at, reason, created_at,
    updated_at, principal_type, principal_id
)
select :organization_id, :scope, :of_whom, :code, :account_id::uuid, :terms, :override_terms,
    :override_expires_at::timestamptz, :reason, t.now, t.now, :principal_type, :principal_id
from clock_timestamp() t (now)
on conflict (organization_id, scope, subject, code) do update set
    terms = excluded.terms, override_terms = excluded.override_terms,
    override_expires_at = excluded.override_expires_at, reason = excluded.reason, updated_at = excluded.updated_at,
    version = control_rules.version + 1, principal_type = excluded.principal_type,
    principal_id = excluded.principal_id,
    created_at = case
        when control_rules.terms is null and coalesce(control_rules.override_expires_at <= excluded.created_at, true)
        then excluded.created_at else control_rules.created_at
    end
returning code, terms, override_terms, override_expires_at, version, reason, created_at, updated_at, principal_type,
    principal_id, coalesce(override_expires_at <= updated_at, false) as is_expired;

-- name: add_change(organization_id, scope, of_whom, code, version, rule_before, rule_after, reason, principal_type, principal_id, changed_at)!
insert into control_changes (
    organization_id, scope, subject, code, version, before, after, reason, principal_type, principal_id, changed_at
)
values (
    :organization_id, :scope, :of_whom, :code, :version, :rule_before, :rule_after, :reason, :principal_type,
    :principal_id, :changed_at
);

-- name: list_changes(organization_id, scope, account_id, of_whom, environment, account_ids, own_key, code, before_no, row_limit)
-- The newest first. Values that are null do not filter. A caller of one environment does not see accounts and keys of the
-- other.
select c.change_no, c.scope, c.subject, r.of_account, c.code, c.version, c.before, c.after, c.reason, c.principal_type,
    c.principal_id, c.changed_at
from control_changes c
join control_rules r on r.organization_id = c.organization_id and r.scope = c.scope and r.subject = c.subject
    and r.code = c.code
left join accounts a on a.organization_id = r.organization_id and a.account_id = r.of_account
left join api_keys k on r.scope = 'KEY' and k.organization_id = r.organization_id and k.api_key_id::text = r.subject
where c.organization_id = :organization_id
    and (:before_no::bigint is null or c.change_no < :before_no)
    and (:scope::text is null or c.scope = :scope)
    and (:account_id::uuid is null or r.of_account = :account_id)
    and (:of_whom::text is null or c.subject = :of_whom)
    and (:code::text is null or c.code = :code)
    and (:environment::text is null or coalesce(a.environment, k.environment, :environment) = :environment)
    and (:account_ids::uuid[] is null or (
        (r.of_account is null or r.of_account = any(:account_ids::uuid[])) and (r.scope <> 'KEY' or r.subject = :own_key)
    ))
order by c.change_no desc limit :row_limit;
