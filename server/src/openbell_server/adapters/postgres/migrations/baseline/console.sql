-- The console: who is signed in to it. Its process has no right to any other table.

create table console_sessions (
    -- The SHA-256 of the cookie, which only the browser has.
    session_hash bytea primary key check (octet_length(session_hash) = 32),
    -- The user at the identity provider.
    issuer text not null check (issuer <> ''),
    subject text not null check (subject <> ''),
    -- The user's tokens, encrypted with the console's key and bound to the session.
    sealed_tokens bytea not null check (octet_length(sealed_tokens) between 1 and 65536),
    token_expires_at timestamptz not null,
    -- How often the tokens were renewed, and until when a process is renewing them.
    refreshes integer not null default 0,
    refresh_claimed_until timestamptz,
    created_at timestamptz not null default clock_timestamp(),
    -- Up to a minute earlier than the last use.
    last_used_at timestamptz not null default clock_timestamp(),
    expires_at timestamptz not null
);
comment on table console_sessions is
    'Who is signed in to the console: a hash of the cookie, and the encrypted tokens of the user. Rows of ended sessions are deleted.';
create index console_sessions_of_user on console_sessions (issuer, subject);
create index console_sessions_used on console_sessions (last_used_at);
alter table console_sessions enable row level security;
alter table console_sessions force row level security;
grant select, insert, delete, update (sealed_tokens, token_expires_at, refreshes, refresh_claimed_until, last_used_at)
    on console_sessions to openbell_console;
create policy console on console_sessions to openbell_console using (true);
