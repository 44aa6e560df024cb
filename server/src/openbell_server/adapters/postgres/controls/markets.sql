-- name: read_prices(organization_id, broker, symbols)
select symbol, price, bid, ask, source, as_of from reference_prices
where organization_id = :organization_id and broker = :broker and symbol = any(:symbols::text[]);

-- name: list_prices(organization_id, broker, some_symbols, row_limit)
select symbol, price, bid, ask, source, as_of from reference_prices
where organization_id = :organization_id and broker = :broker
    and (:some_symbols::text[] is null or symbol = any(:some_symbols::text[]))
order by symbol limit :row_limit;

-- name: read_instruments(organization_id, broker, symbols)
-- A row without an asset class is a symbol that the broker does not know.
select symbol, asset_class, quote_currency, tradable, fractional, tick, lot, multiplier from instruments
where organization_id = :organization_id and broker = :broker and symbol = any(:symbols::text[])
    and asset_class is not null;

-- name: read_rates(organization_id, from_currencies, to_currencies)
select from_currency, to_currency, rate, as_of from exchange_rates
where organization_id = :organization_id
    and (from_currency, to_currency) in (
        select * from unnest(:from_currencies::text[], :to_currencies::text[])
    );

-- name: want_symbols(organization_id, account_id, symbols)!
-- If several processes record the same symbol within 30 seconds, only the first one writes.
insert into wanted_symbols as w (organization_id, account_id, symbol, wanted_at)
select :organization_id, :account_id, symbol, clock_timestamp() from unnest(:symbols::text[]) as symbol order by symbol
on conflict (organization_id, account_id, symbol) do update set wanted_at = excluded.wanted_at
where w.wanted_at < excluded.wanted_at - interval '30 seconds';

-- name: save_prices(organization_id, broker, source, symbols, market_prices, bids, asks, as_ofs)!
-- The newest price wins. Future times are set to now; otherwise a source with a fast clock would block all others.
insert into reference_prices as r (organization_id, broker, symbol, price, bid, ask, source, as_of)
select distinct on (t.symbol) :organization_id::uuid, :broker, t.symbol, t.price, t.bid, t.ask, :source,
    least(coalesce(t.as_of, clock_timestamp()), clock_timestamp())
from unnest(:symbols::text[], :market_prices::numeric[], :bids::numeric[], :asks::numeric[], :as_ofs::timestamptz[])
    t (symbol, price, bid, ask, as_of)
order by t.symbol, t.as_of desc nulls first
on conflict (organization_id, broker, symbol) do update
set price = excluded.price, bid = excluded.bid, ask = excluded.ask, source = excluded.source, as_of = excluded.as_of
where r.as_of < excluded.as_of;

-- name: save_rates(organization_id, from_currencies, to_currencies, rates, as_ofs)!
insert into exchange_rates as r (organization_id, from_currency, to_currency, rate, as_of)
select distinct on (t.from_currency, t.to_currency) :organization_id::uuid, t.from_currency, t.to_currency, t.rate,
    least(coalesce(t.as_of, clock_timestamp()), clock_timestamp())
from unnest(:from_currencies::text[], :to_currencies::text[], :rates::numeric[], :as_ofs::timestamptz[])
    t (from_currency, to_currency, rate, as_of)
order by t.from_currency, t.to_currency, t.as_of desc nulls first
on conflict (organization_id, from_currency, to_currency) do update set rate = excluded.rate, as_of = excluded.as_of
where r.as_of < excluded.as_of;

-- name: save_instruments(organization_id, broker, symbols, asset_classes, quote_currencies, tradables, fractionals, ticks, lots, multipliers)!
-- A symbol that the broker does not know is stored without an asset class.
insert into instruments (
    organization_id, broker, symbol, asset_class, quote_currency, tradable, fractional, tick, lot, multiplier, as_of
)
select :organization_id, :broker, t.*, clock_timestamp()
from unnest(
    :symbols::text[], :asset_classes::text[], :quote_currencies::text[], :tradables::boolean[], :fractionals::boolean[],
    :ticks::numeric[], :lots::numeric[], :multipliers::numeric[]
) t
on conflict (organization_id, broker, symbol) do update
set asset_class = excluded.asset_class, quote_currency = excluded.quote_currency, tradable = excluded.tradable,
    fractional = excluded.fractional, tick = excluded.tick, lot = excluded.lot, multiplier = excluded.multiplier,
    as_of = excluded.as_of;

-- name: wanted_across_organizations(slots, wanted_seconds, row_limit)
-- Symbols that rules read within wanted_seconds.
select a.organization_id, a.account_id, a.broker, a.slot, w.symbol
from wanted_symbols w
join accounts a on a.organization_id = w.organization_id and a.account_id = w.account_id
where a.slot = any(:slots::smallint[])
    and w.wanted_at > clock_timestamp() - make_interval(secs => :wanted_seconds)
order by w.wanted_at desc
limit :row_limit;

-- name: accounts_with_rules_across_organizations(slots, codes, row_limit)
-- Accounts to which a rule of these codes may apply; a rule of the platform applies to all.
select a.organization_id, a.account_id, a.broker, a.slot from accounts a
where a.slot = any(:slots::smallint[]) and exists (
    select 1 from control_rules r
    where r.organization_id in (a.organization_id, '00000000-0000-0000-0000-000000000000')
        and r.code = any(:codes::text[]) and r.terms is not null
        and (r.of_account is null or r.of_account = a.account_id)
)
order by a.organization_id, a.account_id
limit :row_limit;

-- name: traded_symbols(organization_id, account_ids, row_limit)
-- Symbols with a position or an open order.
select account_id, symbol from positions
where organization_id = :organization_id and account_id = any(:account_ids::uuid[]) and quantity <> 0
union
select account_id, symbol from orders
where organization_id = :organization_id and account_id = any(:account_ids::uuid[]) and standing <> 'CLOSED'
limit :row_limit;

-- name: read_losses(organization_id, account_id)
select currency, timezone, day, opening, highest, profit, lost_from_opening, lost_from_highest, as_of, announced
from loss_marks
where organization_id = :organization_id and account_id = :account_id;
