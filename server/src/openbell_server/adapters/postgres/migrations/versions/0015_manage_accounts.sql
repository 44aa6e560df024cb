-- Trading accounts that their organization manages (how they are read comes later), and events of an account that are about no intent.

alter table accounts
    add column if not exists external_account_id text,
    add column if not exists base_currency text not null default 'USD' check (base_currency ~ '^[A-Z]{3}$'),
    add column if not exists timezone text not null default 'UTC',
    add column if not exists disabled_reason text,
    -- Kept here and nowhere else, so that whoever reads the account reads it: accept step and door ask nobody twice.
    add column if not exists credential_status text not null default 'not_required' check (
        credential_status in ('not_required', 'missing', 'unverified', 'valid', 'invalid', 'expired')
    ),
    -- The version of the credential that must be used; null while there is none.
    add column if not exists credential_version integer,
    add column if not exists closed_at timestamptz;
grant update (
    name, external_account_id, timezone, disabled, disabled_reason, credential_status, credential_version, closed_at,
    updated_at, version
) on accounts to openbell_tenant;

-- apart
-- Which slots are held says whether an account's orders would go out now; a lease tells nothing of anybody.
grant select on slot_leases to openbell_tenant;

-- apart
grant insert on account_outbox to openbell_tenant, openbell_operator;
drop policy if exists operator on account_outbox;
create policy operator on account_outbox for insert to openbell_operator
    with check (organization_id = nullif(current_setting('openbell.organization_id', true), '')::uuid);

-- apart
alter table account_events alter column intent_id drop not null, alter column seq drop not null;
