-- Market calendars in controls of symbols, and days that operators change by hand.

create table if not exists calendar_overrides (
    calendar text not null check (calendar ~ '^[A-Z0-9_]{2,16}$'),
    session_date date not null,
    session text not null check (session in ('regular', 'extended', 'overnight')),
    -- Both null: closed that day.
    opens_at timestamptz,
    closes_at timestamptz check (closes_at > opens_at),
    reason text not null check (length(reason) between 1 and 500),
    principal_id text not null,
    changed_at timestamptz not null default clock_timestamp(),
    primary key (calendar, session_date, session),
    check ((opens_at is null) = (closes_at is null))
);
grant select on calendar_overrides to openbell_tenant, openbell_executor;
grant select, insert, update, delete on calendar_overrides to openbell_operator;

-- apart
alter table symbol_time_controls add column if not exists calendar text;
alter table symbol_time_controls add column if not exists session text
    check (session in ('regular', 'extended', 'overnight', 'any'));
alter table symbol_time_controls add column if not exists on_close text check (on_close in ('leave', 'cancel'));
