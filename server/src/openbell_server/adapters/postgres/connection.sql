-- name: database_millis()$
select (extract(epoch from clock_timestamp()) * 1000)::bigint;
