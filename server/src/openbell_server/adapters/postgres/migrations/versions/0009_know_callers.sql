-- Callers whom an identity provider vouches for: which organization of ours they mean, and whom we let in no more.

create table if not exists denied_users (
    provider text not null check (provider <> ''),
    subject text not null check (subject <> ''),
    reason text not null,
    denied_at timestamptz not null default clock_timestamp(),
    primary key (provider, subject)
);
grant select on denied_users to openbell_keys;
grant select, insert, delete on denied_users to openbell_operator;

-- apart
grant select (organization_id, provider, external_id, internal) on organizations to openbell_keys;
drop policy if exists find_caller on organizations;
create policy find_caller on organizations for select to openbell_keys using (true);
