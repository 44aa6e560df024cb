-- name: session_changes(row_limit)
-- The last change of each session of each day, unless it was reset; the newest days first.
select calendar, trade_date, session, opens_at, closes_at, reason
from (
    select distinct on (calendar, trade_date, session) calendar, trade_date, session, opens_at, closes_at, reason,
        is_reset
    from calendar_overrides
    order by calendar, trade_date, session, change_no desc
) newest
where not is_reset
order by trade_date desc, calendar, session
limit :row_limit;

-- name: change_session(calendar, trade_date, session, is_reset, opens_at, closes_at, reason, operator)!
insert into calendar_overrides (calendar, trade_date, session, is_reset, opens_at, closes_at, reason, principal_id)
values (
    :calendar, :trade_date, :session, :is_reset, :opens_at::timestamptz, :closes_at::timestamptz, :reason, :operator
);
