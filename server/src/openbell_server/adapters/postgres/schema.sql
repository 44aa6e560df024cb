-- name: schema_revision()$
select version_num from public.alembic_version;

-- name: existing_roles(role_names)
select rolname from pg_roles where rolname = any(:role_names);
