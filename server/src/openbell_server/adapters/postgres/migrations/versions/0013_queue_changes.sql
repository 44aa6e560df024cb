select 1;

-- apart
-- API keys
grant update (name, disabled, revoked_at) on api_keys to openbell_tenant;
