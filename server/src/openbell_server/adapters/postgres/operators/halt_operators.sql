-- name: list_halts_across_organizations(row_limit)
select s.scope, nullif(s.organization_id, '00000000-0000-0000-0000-000000000000') as organization_id,
    s.of_account as account_id, case s.scope when 'SYMBOL' then split_part(s.subject, ' ', 2) end as symbol,
    case s.scope when 'KEY' then s.subject end as api_key_id, s.state as status, s.cancel_working, s.halted_at, s.version, r.reason,
    r.principal_type || ' ' || r.principal_id as set_by
from switches_in_force s
join control_rules r on r.organization_id = s.organization_id and r.scope = s.scope and r.subject = s.subject
    and r.code = 'SWITCH'
order by s.halted_at
limit :row_limit;
