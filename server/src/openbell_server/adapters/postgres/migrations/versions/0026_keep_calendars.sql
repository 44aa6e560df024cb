-- Market calendars in controls of symbols, and days that operators change by hand.

-- Every change there ever was; of one session of one day the newest applies.
create table if not exists calendar_overrides (
    change_no bigint generated always as identity primary key,
    calendar text not null check (calendar ~ '^[A-Z0-9_]{2,16}$'),
    trade_date date not null,
    session text not null check (session in ('regular', 'extended', 'overnight')),
    -- Nothing is changed any more: the table's own hours apply again.
    is_reset boolean not null,
    -- Both null: closed that day.
    opens_at timestamptz,
    closes_at timestamptz check (closes_at > opens_at),
    reason text not null check (length(reason) between 1 and 500),
    principal_id text not null check (principal_id <> ''),
    changed_at timestamptz not null default clock_timestamp(),
    check ((opens_at is null) = (closes_at is null)),
    check (not is_reset or opens_at is null)
);
create index if not exists calendar_overrides_newest
    on calendar_overrides (calendar, trade_date, session, change_no desc);
create or replace trigger append_only before update or delete or truncate on calendar_overrides
    for each statement execute function refuse_change();
grant select on calendar_overrides to openbell_tenant, openbell_executor;
grant select, insert on calendar_overrides to openbell_operator;

-- apart
alter table symbol_time_controls add column if not exists calendar text;
alter table symbol_time_controls add column if not exists session text
    check (session in ('regular', 'extended', 'overnight', 'any'));
alter table symbol_time_controls add column if not exists on_close text check (on_close in ('leave', 'cancel'));

-- apart
create index if not exists symbol_time_controls_closing on symbol_time_controls (account_id)
    where on_close = 'cancel';
grant select (on_close) on symbol_time_controls to openbell_executor;
