-- name: schema_revision()$
select version_num from public.alembic_version;

