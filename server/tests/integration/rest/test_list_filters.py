"""Lists of some actions: which filters there are, that pages join, and what is refused."""

from datetime import datetime, timedelta

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.intents import read_intents
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_cancel, a_market_create, accept, new_id
from support.rest.rest_api import RestApi, pointers, problem


@pytest.fixture
async def numbered(pool: Pool, tenant: Tenant) -> list[tuple[str, str, str | None]]:
    """Twelve creates over two symbols and three references, and cancels of the first two, in commit order."""
    creates = [
        a_market_create(symbol="AAPL" if n % 3 else "BRK/B", reference=f"r{n % 4}" if n % 4 else None)
        for n in range(12)
    ]
    accepted = await accept(pool, *(tenant.submission(create) for create in creates))
    await accept(pool, *(tenant.submission(a_cancel(one.intent_id)) for one in accepted[:2]))
    rows = await pool.fetch("select symbol, action_type, client_reference_id from intent_actions order by action_no")
    return [tuple(row) for row in rows]


async def listed(api: RestApi, tenant: Tenant, query: dict[str, str]) -> list[tuple[str, str, str | None]]:
    """Every page to the end."""
    seen: list[tuple[str, str, str | None]] = []
    for _ in range(100):
        page = (await api.read(tenant, limit=3, **query)).json()
        seen += [(a["symbol"], a["action_type"], a.get("client_reference_id")) for a in page["data"]]
        if page["next_cursor"] is None:
            return seen
        assert page["next_cursor"] == page["last_cursor"]
        query = {**query, "next_cursor": page["next_cursor"]}
    raise AssertionError("the list has no end")


FILTERS: list[dict[str, str]] = [
    {"symbol": "AAPL"},
    {"symbol": "brk/b"},
    {"symbol": "NONE"},
    {"action_type": "CREATE"},
    {"action_type": "CANCEL"},
    {"action_type": "REPLACE"},
    {"client_reference_id": "r2"},
    {"symbol": "AAPL", "action_type": "CANCEL"},
    {"symbol": "AAPL", "client_reference_id": "r1"},
    {"symbol": "AAPL", "client_reference_id": "r1", "action_type": "CREATE"},
]


@pytest.mark.parametrize("query", FILTERS, ids=str)
@pytest.mark.parametrize("span", [1, 2, 5, 10_000])
async def test_a_filter_lists_what_passes_it_in_order_and_nothing_else(
    api: RestApi,
    tenant: Tenant,
    numbered: list[tuple[str, str, str | None]],
    query: dict[str, str],
    span: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(read_intents, "NUMBERS_MAX", span)
    symbol, kind, reference = (query.get(name) for name in ("symbol", "action_type", "client_reference_id"))
    expected = [
        row
        for row in numbered
        if (symbol or row[0]).upper() == row[0] and (kind or row[1]) == row[1] and (reference or row[2]) == row[2]
    ]
    assert await listed(api, tenant, query) == expected


async def test_since_is_included_and_until_is_not(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    for _ in range(5):
        await accept(pool, tenant.submission())
    data = (await api.read(tenant)).json()["data"]
    first, last = data[0]["created_at"], data[4]["created_at"]
    between = (await api.read(tenant, since=first, until=last)).json()
    assert [action["id"] for action in between["data"]] == [action["id"] for action in data[:4]]
    offset = datetime.fromisoformat(first) + timedelta(hours=5, minutes=30)
    written = offset.isoformat().removesuffix("Z").removesuffix("+00:00") + "+05:30"
    assert (await api.read(tenant, since=written, until=last)).json()["data"] == between["data"]
    assert (await api.read(tenant, since=last)).json()["data"] == [data[4]]


async def test_no_action_is_missed_though_the_clock_was_set_back(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await accept(pool, *(tenant.submission() for _ in range(40)))
    await pool.execute(
        "alter table intent_actions disable trigger append_only;"
        "update intent_actions set created_at = '2026-01-05T12:00Z'::timestamptz + action_no * interval '4 seconds'"
        " - case when action_no > 20 then interval '59 seconds' else interval '0' end"
    )
    for second in range(0, 180, 7):
        moment = f"2026-01-05T12:{second // 60:02}:{second % 60:02}Z"
        for name, sign in (("since", ">="), ("until", "<")):
            rows = await pool.fetch(
                f"select action_id::text from intent_actions where created_at {sign} '{moment}' order by action_no"
            )
            page = (await api.read(tenant, limit=100, **{name: moment})).json()
            assert [action["id"] for action in page["data"]] == [row["action_id"] for row in rows]


async def test_the_last_cursor_of_a_filtered_list_goes_on_with_what_comes_later(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    await accept(pool, tenant.submission(a_market_create(symbol="MSFT")), tenant.submission())
    for query in ({"symbol": "MSFT"}, {"action_type": "CREATE", "symbol": "MSFT"}):
        last = (await api.read(tenant, **query)).json()["last_cursor"]
        assert (await api.read(tenant, next_cursor=last, **query)).json()["data"] == []
        (later,) = await accept(pool, tenant.submission(a_market_create(symbol="MSFT")))
        following = (await api.read(tenant, next_cursor=last, **query)).json()
        assert [action["intent_id"] for action in following["data"]] == [str(later.intent_id)]


async def test_a_cursor_belongs_to_its_filter(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await accept(pool, *(tenant.submission() for _ in range(3)))
    of_all = (await api.read(tenant, limit=1)).json()["next_cursor"]
    of_symbol = (await api.read(tenant, limit=1, symbol="AAPL")).json()["next_cursor"]
    for cursor, query in (
        (of_all, {"symbol": "AAPL"}),
        (of_symbol, {}),
        (of_symbol, {"symbol": "MSFT"}),
        (of_symbol, {"symbol": "AAPL", "action_type": "CREATE"}),
        (of_symbol, {"client_reference_id": "AAPL"}),
    ):
        problem(await api.read(tenant, next_cursor=cursor, **query), 400, "invalid_cursor")
    same = await api.read(tenant, limit=5, next_cursor=of_symbol, symbol="aapl")
    assert len(same.json()["data"]) == 2


BAD: list[tuple[str, str, str]] = [
    ("symbol", "", "A-Z"),
    ("symbol", "AA PL", "A-Z"),
    ("symbol", "A" * 33, "A-Z"),
    ("action_type", "create", "CREATE, REPLACE, CANCEL"),
    ("action_type", "", "CREATE, REPLACE, CANCEL"),
    ("client_reference_id", "", "1 to 128"),
    ("client_reference_id", "x" * 129, "1 to 128"),
    ("client_reference_id", "a\0b", "1 to 128"),
    *(
        (name, text, "RFC 3339")
        for name in ("since", "until")
        for text in (
            *("", "now", "2026-01-31", "2026-01-31T09:30:00", "2026-01-31 09:30:00Z", "2026-02-30T09:30:00Z"),
            *("2026-01-31T24:00:00Z", "2026-01-31T09:30:60Z", "2026-01-31T09:30:00 01:00", "2026-01-31T09:30Z"),
            *("2026-01-31T09:30:00.1234567Z", "0000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00"),
            *("9999-12-31T23:59:59-01:00", "2026-01-31T09:30:00+24:00", "1767225600", "٢026-01-31T09:30:00Z"),
        )
    ),
]


@pytest.mark.parametrize(("name", "text", "says"), BAD, ids=str)
async def test_a_filter_of_the_wrong_shape_is_refused_by_name_with_what_would_pass(
    api: RestApi, tenant: Tenant, name: str, text: str, says: str
) -> None:
    body = problem(await api.read(tenant, **{name: text}), 400, "invalid_parameter")
    assert pointers(body) == [f"/{name}"]
    assert says in str(body["detail"])


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59.999999Z", "2026-01-31t09:30:00z"])
async def test_every_moment_of_the_calendar_may_be_asked_for(api: RestApi, tenant: Tenant, moment: str) -> None:
    for name in ("since", "until"):
        assert (await api.read(tenant, **{name: moment})).status_code == 200


@pytest.mark.parametrize(
    "below", ["", "/stats", f"/{new_id()}", f"/{new_id()}/actions"], ids=["list", "stats", "intent", "actions"]
)
async def test_a_parameter_that_a_route_does_not_know_is_refused_by_name(
    api: RestApi, tenant: Tenant, below: str
) -> None:
    body = problem(await api.read(tenant, below, symbols="AAPL"), 400, "invalid_parameter")
    assert pointers(body) == ["/symbols"]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({"symbol": "RARE"}, "intent_actions_of_symbol"),
        ({"client_reference_id": "rare"}, "intent_actions_of_reference"),
        ({"action_type": "CANCEL"}, "intent_actions_of_type"),
    ],
    ids=["symbol", "reference", "type"],
)
async def test_an_index_leads_to_the_few_among_many(
    api: RestApi, tenant: Tenant, pool: Pool, query: dict[str, str], index: str
) -> None:
    for _ in range(15):
        await accept(pool, *(tenant.submission() for _ in range(200)))
    (rare,) = await accept(pool, tenant.submission(a_market_create(symbol="RARE", reference="rare")))
    await accept(pool, tenant.submission(a_cancel(rare.intent_id)))
    await pool.execute("analyze intent_actions")
    read = "select idx_tup_read from pg_stat_all_indexes where indexrelname = $1"
    assert len((await api.read(tenant, **query)).json()["data"]) in (1, 2)

    # The connection that read reports it at its next transaction, or when it was idle for ten seconds.
    async def is_reported() -> bool:
        return bool(await pool.fetchval(read, index))

    await until(is_reported)
    assert await pool.fetchval(read, index) in range(1, 10)
