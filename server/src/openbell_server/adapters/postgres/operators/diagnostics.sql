-- name: server_facts()^
select current_setting('server_version_num')::integer / 10000 as major, current_setting('server_version') as version,
    current_setting('fsync') as fsync, current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit,
    extract(epoch from clock_timestamp())::double precision as now;

-- name: login_facts(role_names)^
select r.rolname as name, r.rolsuper as is_superuser, r.rolbypassrls as bypasses_row_security,
    r.rolcreaterole as makes_roles,
    array(
        select o.rolname from pg_roles o
        where o.rolname = any(:role_names::text[]) and pg_has_role(r.oid, o.oid, 'member')
        order by 1
    ) as member_of,
    array(select o.rolname from pg_roles o where o.rolname = any(:role_names::text[]) order by 1) as existing_roles,
    (
        select count(*) from pg_class c
        where c.relowner = r.oid and c.relnamespace = (select n.oid from pg_namespace n where n.nspname = 'openbell')
    ) as owned
from pg_roles r where r.rolname = current_user;

-- name: unprotected_tables()
-- Tables with organization_id but without forced row security.
select c.relname from pg_class c
join pg_namespace n on n.oid = c.relnamespace and n.nspname = 'openbell'
join pg_attribute a on a.attrelid = c.oid and a.attname = 'organization_id' and not a.attisdropped
where c.relkind in ('r', 'p') and not (c.relrowsecurity and c.relforcerowsecurity)
order by 1;

-- name: living_executors(seconds)^
-- Executors that renewed within these seconds, and slots that a registered executor holds.
select (
    select count(*) from executors where seen_at > clock_timestamp() - make_interval(secs => :seconds)
) as living,
(
    select count(*) from slot_leases
    where held_until > clock_timestamp() and exists (select from executors where executor_id = slot_leases.holder)
) as held;

-- name: unknown_actions_across_organizations()^
-- Number of UNKNOWN actions, age of the oldest in seconds, and number of flagged ones.
select count(*) as count, coalesce(extract(epoch from clock_timestamp() - min(unknown_since)), 0)::double precision as oldest,
    count(flagged_at) as flagged
from action_states where settled_at is null and state = 'UNKNOWN';

-- name: halted_accounts_across_organizations()$
select count(*) from account_counters where halt_code is not null;

-- name: count_objects_across_organizations()$
select count(credential_id) from vault_objects;

-- name: an_object_of_each_key_across_organizations(row_limit)
select distinct on (key_id) key_id, organization_id, account_id, credential_id, version, wrapped_key, sealed
from vault_objects
order by key_id
limit :row_limit;
