-- name: find_caller_across_organizations(provider, subject, external_id)^
-- Always one row: a token may name no organization, or one that is unknown here.
select exists (select 1 from denied_users d where d.provider = :provider and d.subject = :subject) as is_denied,
    o.organization_id, coalesce(o.internal, false) as is_internal
from (select 1) as always
left join organizations o on o.provider = :provider and o.external_id = :external_id;

-- name: find_organization_across_organizations(provider, external_id)$
select organization_id from organizations where provider = :provider and external_id = :external_id;
