-- name: database_micros()$
select (extract(epoch from clock_timestamp()) * 1000000)::bigint;

-- name: check_writing()!
update write_checks set written_at = clock_timestamp();
