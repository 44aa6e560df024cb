-- These need the newest schema.

-- name: organization_standing(organization_id)^
select disabled, entitlements from organizations where organization_id = :organization_id;

-- name: take_turn(whose)^
-- Whoever changes rules of the platform waits for the one before, so that all take the organizations' rows in one order.
select pg_advisory_xact_lock(hashtextextended(:whose::uuid::text, 8));

-- name: begin_organization_epoch(organization_id)$
-- What was evaluated against the epoch before is not written any more. Whoever changes rules waits here for the one before.
update organizations set control_epoch = control_epoch + 1 where organization_id = :organization_id
returning control_epoch;

-- name: begin_epochs_across_organizations()^
select begin_every_epoch();

-- name: shut_doors(whose)^
-- Doors hold this lock shared: once it is ours, whoever opens one reads what we commit.
select pg_advisory_xact_lock(hashtextextended(:whose::uuid::text, 7));

-- name: put_in_force(organization_id, scope, of_whom, code)$
-- The same for a rule, which is in force from then on: its time says so, and no door that it shuts is opened later.
with turn as materialized (
    select pg_advisory_xact_lock(hashtextextended(:organization_id::uuid::text, 7))
),
moment as materialized (select clock_timestamp() as now from turn)
update control_rules r set updated_at = m.now from moment m
where r.organization_id = :organization_id and r.scope = :scope and r.subject = :of_whom and r.code = :code
returning r.updated_at;

-- name: find_rule(organization_id, scope, of_whom, code)^
-- Whatever became of it: also as it was removed, and an override that has expired is shown as none.
select r.code, r.terms, r.version, r.reason, r.created_at, r.updated_at, r.principal_type, r.principal_id,
    case when r.override_expires_at > t.now then r.override_terms end as override_terms,
    case when r.override_expires_at > t.now then r.override_expires_at end as override_expires_at
from control_rules r, clock_timestamp() t (now)
where r.organization_id = :organization_id and r.scope = :scope and r.subject = :of_whom and r.code = :code;

-- name: list_rules(organization_id, scope, of_whom, row_limit)
select r.code, r.terms, r.version, r.reason, r.created_at, r.updated_at, r.principal_type, r.principal_id,
    case when r.override_expires_at > t.now then r.override_terms end as override_terms,
    case when r.override_expires_at > t.now then r.override_expires_at end as override_expires_at
from control_rules r, clock_timestamp() t (now)
where r.organization_id = :organization_id and r.scope = :scope and r.subject = :of_whom
    and (r.terms is not null or r.override_expires_at > t.now)
order by r.code limit :row_limit;

-- name: save_rule(organization_id, scope, of_whom, code, account_id, terms, override_terms, override_expires_at, reason, principal_type, principal_id)^
-- Versions go on where a rule was removed before; its life begins anew.
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

-- name: list_changes(organization_id, scope, of_whom, code, before_version, row_limit)
select code, version, before, after, reason, principal_type, principal_id, changed_at
from control_changes
where organization_id = :organization_id and scope = :scope and subject = :of_whom and code = :code
    and (:before_version::integer is null or version < :before_version)
order by version desc limit :row_limit;
