-- part: is_live
expires_at > clock_timestamp() and last_used_at > clock_timestamp() - make_interval(secs => :idle_seconds)

-- name: open_session(session_hash, issuer, subject, sealed_tokens, token_seconds, session_seconds, others_max)!
-- A user who signs in again and again keeps the newest sessions only.
with too_many as (
    delete from console_sessions where session_hash in (
        select s.session_hash from console_sessions s where s.issuer = :issuer and s.subject = :subject
        order by s.created_at desc offset :others_max
    )
)
insert into console_sessions (session_hash, issuer, subject, sealed_tokens, token_expires_at, expires_at)
values (
    :session_hash, :issuer, :subject, :sealed_tokens, clock_timestamp() + make_interval(secs => :token_seconds),
    clock_timestamp() + make_interval(secs => :session_seconds)
);

-- name: read_session(session_hash, idle_seconds)^
select issuer, subject, sealed_tokens, refreshes, expires_at,
    extract(epoch from token_expires_at - clock_timestamp())::float8 as token_seconds,
    extract(epoch from clock_timestamp() - last_used_at)::float8 as unused_seconds
from console_sessions where session_hash = :session_hash and {is_live};

-- name: live_sessions(session_hashes, idle_seconds)
select session_hash from console_sessions where session_hash = any(:session_hashes::bytea[]) and {is_live};

-- name: note_session_use(session_hash, idle_seconds)!
update console_sessions set last_used_at = clock_timestamp() where session_hash = :session_hash and {is_live};

-- name: claim_refresh(session_hash, refreshes, claim_seconds)$
-- No value: another process renews the tokens now, or has done so.
update console_sessions set refresh_claimed_until = clock_timestamp() + make_interval(secs => :claim_seconds)
where session_hash = :session_hash and refreshes = :refreshes
    and coalesce(refresh_claimed_until <= clock_timestamp(), true)
returning true;

-- name: save_tokens(session_hash, refreshes, sealed_tokens, token_seconds)!
update console_sessions
set sealed_tokens = :sealed_tokens, token_expires_at = clock_timestamp() + make_interval(secs => :token_seconds),
    refreshes = refreshes + 1, refresh_claimed_until = null
where session_hash = :session_hash and refreshes = :refreshes;

-- name: end_session(session_hash)!
delete from console_sessions where session_hash = :session_hash;

-- name: end_sessions_of_user(session_hash)!
delete from console_sessions s using console_sessions named
where named.session_hash = :session_hash and s.issuer = named.issuer and s.subject = named.subject;

-- name: prune_sessions(idle_seconds, row_limit)$
-- A session that has reached its greatest age is not used any more, so it becomes idle too.
with ended as (
    delete from console_sessions where session_hash in (
        select session_hash from console_sessions
        where last_used_at <= clock_timestamp() - make_interval(secs => :idle_seconds)
        order by last_used_at limit :row_limit for update skip locked
    ) returning 1
)
select count(*) from ended;

-- name: check_writing_sessions()!
-- It changes no row, and fails on a server that takes no writes.
update console_sessions set last_used_at = clock_timestamp() where false;
