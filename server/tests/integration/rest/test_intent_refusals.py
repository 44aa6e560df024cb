"""What REST refuses: in which order, in which words, and never with a failure of ours."""

import json
import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import CONTROLS_PREMIUM, Environment
from openbell_server.domain.access.principals import EVENT_READ, INTENT_EDIT, INTENT_READ
from openbell_server.domain.identifiers import AccountId
from support.builders.tenant import Tenant, a_key, a_tenant, accept, misspelled, new_id
from support.rest.rest_api import JSON, RestApi, cancel_body, create_body, intents_of, pointers, problem

GOOD = json.dumps(create_body()).encode()
LONG = 64 * 1024


def elsewhere(tenant: Tenant) -> Tenant:
    """The same caller at an account that is not there."""
    return replace(tenant, account=replace(tenant.account, id=AccountId(new_id())))


async def test_the_first_failing_check_answers(api: RestApi, pool: Pool) -> None:
    """Everything is wrong at first; each step puts one thing right."""
    live = await a_tenant(pool, environment=Environment.LIVE, entitlements=frozenset({CONTROLS_PREMIUM}))
    organization = live.account.organization_id
    await pool.execute("update organizations set disabled = true")
    await pool.execute("update accounts set disabled = true")
    _, reader = await a_key(pool, organization, Environment.PAPER, frozenset({INTENT_READ}))
    _, paper = await a_key(pool, organization, Environment.PAPER)
    other, right = {"authorization": "Bearer x"}, {"content-type": "application/json"}
    wrong = {"idempotency-key": "no spaces allowed", "content-type": "text/plain"}

    async def refused(
        caller: Tenant, headers: dict[str, str], status: int, code: str, body: bytes = b"{" * LONG
    ) -> None:
        problem(await api.submit_raw(caller, body + b"{", headers), status, code)

    await refused(replace(elsewhere(live), key="nonsense"), {**wrong, **other}, 400, "ambiguous_credentials")
    await refused(replace(elsewhere(live), key="nonsense"), wrong, 401, "unauthenticated")
    await refused(replace(elsewhere(live), key=reader), wrong, 403, "permission_denied")
    await refused(replace(elsewhere(live), key=paper), wrong, 400, "invalid_parameter")
    wrong["idempotency-key"] = "k"
    await refused(replace(elsewhere(live), key=paper), wrong, 404, "not_found")
    await refused(replace(live, key=paper), wrong, 403, "environment_mismatch")
    await refused(live, wrong, 403, "entitlement_required")
    await pool.execute("update organizations set entitlements = '{trading_live}'")
    await refused(live, wrong, 409, "organization_disabled")
    await pool.execute("update organizations set disabled = false")
    await refused(live, wrong, 409, "account_disabled")
    await pool.execute("update accounts set disabled = false")
    await refused(live, wrong, 415, "not_json")
    await refused(live, right, 413, "body_too_large")
    await refused(live, right, 400, "malformed_body", b"")
    await refused(live, right, 400, "malformed_body", GOOD)
    problem(await api.submit(live, {}), 422, "invalid_command")
    assert (await api.submit(live, create_body())).status_code == 202


async def test_every_wrong_credential_answers_alike(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    _, revoked = await a_key(pool, tenant.account.organization_id)
    await pool.execute("update api_keys set revoked_at = now() where key_id = $1", revoked.split("_")[3])
    _, expired = await a_key(pool, tenant.account.organization_id)
    past = datetime.now(UTC) - timedelta(seconds=1)
    await pool.execute("update api_keys set expires_at = $2 where key_id = $1", expired.split("_")[3], past)
    other_organization = await a_tenant(pool)
    await pool.execute(
        "update api_keys set secret_hash = sha256('other') where key_id = $1", other_organization.key.split("_")[3]
    )
    await pool.execute("update api_keys set disabled = true where revoked_at is not null or expires_at is not null")
    credentials: list[dict[str, str]] = [
        {},
        {"x-api-key": ""},
        {"x-api-key": "nonsense"},
        {"x-api-key": "é"},
        {"x-api-key": misspelled(tenant.key)},
        {"x-api-key": other_organization.key},
        {"x-api-key": revoked},
        {"x-api-key": expired},
        {"authorization": "Basic eDp5"},
    ]
    for method, below in (("GET", ""), ("POST", ""), ("GET", f"/{new_id()}"), ("GET", f"/{new_id()}/actions")):
        answers = [
            await api.client.request(
                method,
                intents_of(tenant) + below,
                headers=[(b"x-request-id", b"same"), *((n.encode(), v.encode("latin-1")) for n, v in sent.items())],
            )
            for sent in credentials
        ]
        problem(answers[0], 401, "unauthenticated")
        assert len({(answer.content, str(answer.headers)) for answer in answers}) == 1


async def test_a_disabled_key_is_told_so_only_to_its_holder(api: RestApi, tenant: Tenant, pool: Pool) -> None:
    await pool.execute("update api_keys set disabled = true")
    problem(await api.submit(tenant, create_body()), 401, "key_disabled")
    guessed = await a_tenant(pool)
    await pool.execute("update api_keys set disabled = true, secret_hash = sha256('other')")
    problem(await api.submit(guessed, create_body()), 401, "unauthenticated")


@pytest.mark.parametrize(
    "pair",
    [
        [("x-api-key", "{}"), ("authorization", "Bearer x")],
        [("x-api-key", "{}"), ("x-api-key", "{}")],
        [("authorization", "Bearer x"), ("authorization", "Bearer y")],
        [("x-api-key", "{}"), ("x-api-key", "")],
    ],
)
async def test_two_credentials_are_refused_whichever_is_right(
    api: RestApi, tenant: Tenant, pair: list[tuple[str, str]]
) -> None:
    headers = [(name, value.format(tenant.key)) for name, value in pair]
    problem(await api.client.get(intents_of(tenant), headers=headers), 400, "ambiguous_credentials")
    problem(await api.client.post(intents_of(tenant), headers=headers), 400, "ambiguous_credentials")


async def test_reading_and_submitting_need_their_own_permission(api: RestApi, pool: Pool) -> None:
    reader = await a_tenant(pool, permissions=frozenset({INTENT_READ, EVENT_READ}))
    writer = await a_tenant(pool, permissions=frozenset({INTENT_EDIT}))
    assert "intent:edit" in str(problem(await api.submit(reader, create_body()), 403, "permission_denied")["detail"])
    created = (await api.submit(writer, create_body())).json()
    for below in ("", f"/{created['intent_id']}", f"/{created['intent_id']}/actions"):
        problem(await api.read(writer, below), 403, "permission_denied")
    assert (await api.read(reader)).status_code == 200


async def test_a_foreign_account_answers_byte_for_byte_like_a_missing_one(
    api: RestApi, tenant: Tenant, pool: Pool
) -> None:
    other_organization = await a_tenant(pool)
    foreign, missing = replace(tenant, account=other_organization.account), elsewhere(tenant)
    same = {"x-request-id": "same"}
    for body in (create_body(), cancel_body(new_id()), {"nonsense": 1}):
        answers = [await api.submit(at, body, headers=same) for at in (foreign, missing)]
        problem(answers[0], 404, "not_found")
        assert (answers[0].content, answers[0].headers) == (answers[1].content, answers[1].headers)
    for below in ("", f"/{new_id()}", f"/{new_id()}/actions"):
        reads = [
            await api.client.get(intents_of(at) + below, headers={"x-api-key": tenant.key, **same})
            for at in (foreign, missing)
        ]
        problem(reads[0], 404, "not_found")
        assert (reads[0].content, reads[0].headers) == (reads[1].content, reads[1].headers)


@pytest.mark.parametrize("environment", list(Environment))
async def test_a_key_of_the_other_environment_is_refused_both_ways(
    api: RestApi, pool: Pool, environment: Environment
) -> None:
    other = Environment.LIVE if environment is Environment.PAPER else Environment.PAPER
    tenant = await a_tenant(pool, environment=environment, key_environment=other)
    problem(await api.submit(tenant, create_body()), 403, "environment_mismatch")
    problem(await api.submit(tenant, cancel_body(new_id())), 403, "environment_mismatch")
    problem(await api.read(tenant), 403, "environment_mismatch")


async def test_live_without_the_entitlement_takes_a_cancel_only(api: RestApi, pool: Pool) -> None:
    tenant = await a_tenant(pool, environment=Environment.LIVE, entitlements=frozenset({CONTROLS_PREMIUM}))
    (created,) = await accept(pool, tenant.submission())
    body = problem(await api.submit(tenant, create_body()), 403, "entitlement_required")
    assert "trading_live" in str(body["detail"])
    assert (await api.submit(tenant, cancel_body(created.intent_id))).status_code == 202
    assert (await api.read(tenant)).status_code == 200


@pytest.mark.parametrize("table", ["accounts", "organizations"])
async def test_what_is_disabled_refuses_a_create_and_takes_a_cancel(
    api: RestApi, tenant: Tenant, pool: Pool, table: str
) -> None:
    (created,) = await accept(pool, tenant.submission())
    await pool.execute(f"update {table} set disabled = true")
    problem(await api.submit(tenant, create_body()), 409, f"{table[:-1]}_disabled")
    assert (await api.submit(tenant, cancel_body(created.intent_id))).status_code == 202
    assert (await api.read(tenant)).status_code == 200


MALFORMED = {
    "empty": b"",
    "cut": GOOD[:-1],
    "two values": GOOD + GOOD,
    "a key twice": GOOD[:-1] + b',"command":{}}',
    "a key twice below": GOOD.replace(b'"quantity"', b'"quantity":"1","quantity"'),
    "NUL in a text": GOOD.replace(b"AAPL", b"AA\\u0000PL"),
    "NUL in a key": GOOD[:-1] + b',"\\u0000":1}',
    "NUL in an array": GOOD[:-1] + b',"client_reference_id":["\\u0000"]}',
    "a raw NUL": GOOD.replace(b"AAPL", b"AA\0PL"),
    "NaN": GOOD.replace(b'"10"', b"NaN"),
    "Infinity": GOOD.replace(b'"10"', b"-Infinity"),
    "33 arrays": b"[" * 33 + b"]" * 33,
    "33 objects": b'{"a":' * 33 + b"1" + b"}" * 33,
    "deep under a field": GOOD[:-1] + b',"client_reference_id":' + b"[" * 32 + b"]" * 32 + b"}",
    "deepest": b"[" * LONG,
    "deepest objects": b'{"a":' * 10_000,
    "UTF-16": json.dumps(create_body()).encode("utf-16"),
    "UTF-16 without a mark": json.dumps(create_body()).encode("utf-16-le"),
    "UTF-32": json.dumps(create_body()).encode("utf-32"),
    "a byte-order mark": b"\xef\xbb\xbf" + GOOD,
    "not UTF-8": GOOD.replace(b"AAPL", b"\xff\xfe"),
    "an encoded surrogate": GOOD.replace(b"AAPL", b"\xed\xa0\x80"),
    "an escaped surrogate": GOOD[:-1] + b',"client_reference_id":"\\ud800"}',
    "a surrogate as key": GOOD[:-1] + b',"\\udfff":1}',
    "a comment": b"/**/" + GOOD,
    "a trailing comma": GOOD[:-1] + b",}",
    "a huge number": GOOD.replace(b'"10"', b"9" * 5000),
}


@pytest.mark.parametrize("name", MALFORMED)
async def test_a_malformed_body_is_refused(api: RestApi, tenant: Tenant, name: str) -> None:
    problem(await api.submit_raw(tenant, MALFORMED[name]), 400, "malformed_body")


async def test_32_levels_are_not_too_deep(api: RestApi, tenant: Tenant) -> None:
    problem(await api.submit_raw(tenant, b"[" * 32 + b"]" * 32), 422, "invalid_command")


SPEC = "/command/payload/spec"
INVALID: dict[str, tuple[bytes, str]] = {
    "no object": (b"[]", ""),
    "null": (b"null", ""),
    "an unknown field": (GOOD[:-1] + b',"extra":1}', "/extra"),
    "an unknown field below": (GOOD.replace(b'"quantity"', b'"extra":1,"quantity"'), f"{SPEC}/Market/extra"),
    "an unknown command": (GOOD.replace(b"CREATE", b"DELETE"), "/command/type"),
    "no command": (b"{}", "/command"),
    "no payload": (b'{"command":{"type":"CREATE"}}', "/command/payload"),
    "an integer quantity": (GOOD.replace(b'"10"', b"10"), f"{SPEC}/Market/quantity"),
    "a float quantity": (GOOD.replace(b'"10"', b"1.5"), f"{SPEC}/Market/quantity"),
    "an infinite quantity": (GOOD.replace(b'"10"', b"1e999"), f"{SPEC}/Market/quantity"),
    "a null quantity": (GOOD.replace(b'"10"', b"null"), f"{SPEC}/Market/quantity"),
    "an exponent": (GOOD.replace(b'"10"', b'"1e5"'), f"{SPEC}/Market/quantity"),
    "a newline": (GOOD.replace(b'"10"', b'"10\\n"'), f"{SPEC}/Market/quantity"),
    "nothing to trade": (GOOD.replace(b'"10"', b'"0.0"'), f"{SPEC}/Market/quantity"),
    "no kind": (GOOD.replace(b'"Market": {"quantity": "10"}', b""), SPEC),
    "two kinds": (GOOD.replace(b'{"Market"', b'{"Stop":{"stop_price":"1","quantity":"1"},"Market"'), SPEC),
    "a kind in another case": (GOOD.replace(b"Market", b"market"), f"{SPEC}/market"),
    "a price on a market order": (GOOD.replace(b'"quantity"', b'"price":"1","quantity"'), f"{SPEC}/Market/price"),
    "a side that is none": (GOOD.replace(b"BUY", b"buy"), "/command/payload/order_side"),
    "a time in force that is none": (
        GOOD.replace(b'"quantity"', b'"time_in_force":"GTC","quantity"'),
        f"{SPEC}/Market/time_in_force",
    ),
    "a symbol with a space": (GOOD.replace(b"AAPL", b"A B"), "/command/payload/symbol"),
    "no symbol": (GOOD.replace(b"AAPL", b""), "/command/payload/symbol"),
    "a long symbol": (GOOD.replace(b"AAPL", b"A" * 33), "/command/payload/symbol"),
    "a letter that becomes plain in capitals": (GOOD.replace(b"AAPL", "ſpy".encode()), "/command/payload/symbol"),
    "a letter that becomes two in capitals": (GOOD.replace(b"AAPL", "aß".encode()), "/command/payload/symbol"),
    "a reference too long": (GOOD[:-1] + b',"client_reference_id":"' + b"x" * 129 + b'"}', "/client_reference_id"),
    "a reference that cannot be shown": (GOOD[:-1] + b',"client_reference_id":"\\u0007"}', "/client_reference_id"),
    "an empty reference": (GOOD[:-1] + b',"client_reference_id":""}', "/client_reference_id"),
    "an intent id that is none": (json.dumps(cancel_body("x")).encode(), "/command/payload/ref_intent_id"),
}


@pytest.mark.parametrize("name", INVALID)
async def test_an_invalid_command_is_refused_with_a_pointer(
    api: RestApi, tenant: Tenant, name: str, pool: Pool
) -> None:
    body, pointer = INVALID[name]
    answer = problem(await api.submit_raw(tenant, body), 422, "invalid_command")
    assert pointers(answer) == [pointer]
    assert await pool.fetchval("select count(*) from intent_actions") == 0


async def test_a_body_of_64_kib_is_read_and_one_byte_more_is_not(api: RestApi, tenant: Tenant) -> None:
    assert (await api.submit_raw(tenant, GOOD + b" " * (LONG - len(GOOD)))).status_code == 202
    problem(await api.submit_raw(tenant, GOOD + b" " * (LONG - len(GOOD) + 1)), 413, "body_too_large")


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/xml", "application/jsonp", ";;=", "é", "json"])
async def test_a_body_that_is_not_called_json_is_refused(api: RestApi, tenant: Tenant, content_type: str) -> None:
    problem(await api.submit_raw(tenant, GOOD, {"content-type": content_type}), 415, "not_json")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
async def test_the_spelling_of_the_content_type_does_not_matter(
    api: RestApi, tenant: Tenant, content_type: str
) -> None:
    assert (await api.submit_raw(tenant, GOOD, {"content-type": content_type})).status_code == 202


@pytest.mark.parametrize("key", ["", " ", "a b", "x" * 256, "é", "\t", "a\x7f"])
async def test_an_idempotency_key_that_is_not_visible_ascii_is_refused(api: RestApi, tenant: Tenant, key: str) -> None:
    answer = await api.submit_raw(tenant, GOOD, {"idempotency-key": key})
    assert pointers(problem(answer, 400, "invalid_parameter")) == ["/headers/idempotency-key"]


@pytest.mark.parametrize(("below", "taken"), [("", "next_cursor, limit"), ("/{}", "none"), ("/{}/actions", "next_cur")])
async def test_a_query_parameter_that_is_none_is_refused_by_name(
    api: RestApi, tenant: Tenant, below: str, taken: str
) -> None:
    answer = problem(await api.read(tenant, below.format(new_id()), cursor="x"), 400, "invalid_parameter")
    assert pointers(answer) == ["/cursor"]
    assert taken in str(answer["detail"])


async def test_an_idempotency_key_of_255_signs_is_taken(api: RestApi, tenant: Tenant) -> None:
    assert (await api.submit(tenant, create_body(), key="~" * 255)).status_code == 202


async def test_a_plain_request_id_is_echoed_and_a_hostile_one_replaced(api: RestApi, tenant: Tenant) -> None:
    async def echoed(sent: bytes) -> str:
        headers = [(b"x-api-key", tenant.key.encode()), (b"x-request-id", sent)]
        return (await api.client.get(intents_of(tenant), headers=headers)).headers["x-request-id"]

    assert await echoed(b"A-z_09") == "A-z_09"
    for hostile in (b"", b"a b", b"x" * 65, b"a\nset-cookie: x", b"<script>", b"\xff", b'"', b"a;b", b"a\0"):
        answer = await echoed(hostile)
        assert answer != hostile.decode("latin-1")
        assert answer.isalnum()
        assert len(answer) == 32


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/accounts/x/intents", "/v2/x", "/v1/accounts/{}/intents/x", "/%2e%2e", "/é"]
)
async def test_a_path_that_is_none_is_a_problem_like_any_other(api: RestApi, tenant: Tenant, path: str) -> None:
    said = problem(await api.client.get(path.format(tenant.account.id)), 404, "not_found")
    assert "every id in it is a UUID" in str(said["detail"])


async def test_a_deadline_that_has_passed_asks_for_a_later_one(api: RestApi, tenant: Tenant) -> None:
    late = await api.submit(tenant, create_body() | {"deadline": "2020-01-01T00:00:00Z"})
    detail = problem(late, 422, "controls_refused")["detail"]
    assert detail == (
        "refused by STALE_ORDER: the deadline has passed, submit it with a later one; nothing was recorded"
    )


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PURGE"])
async def test_a_method_that_a_path_does_not_take_is_a_problem_that_names_those_it_does(
    api: RestApi, tenant: Tenant, method: str
) -> None:
    answer = await api.client.request(method, intents_of(tenant))
    problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "GET, POST"


def hostile_bodies() -> list[bytes]:
    """A fixed corpus: nasty values in every place, cut and flipped bytes of a good body."""
    chance = random.Random(11)
    nasty: list[object] = [
        None, True, -1, 1e308, 10**400, [], {}, [[]], "", "\0", "\ud800", "\udfff\ud800", "\U0001f4a9", "a" * 9000,
        "-1", "1e400", "$.x", "` - at `$.x`", "../..", "'; drop table orders; --", "%s%n", "{0}", "\u202e", "\x7f",
    ]  # fmt: skip
    places = ("symbol", "order_side", "spec", "route_strategy", "extra\ud800")
    bodies: list[dict[str, object]] = []
    for value in nasty:
        for place in places:
            payload: dict[str, object] = {
                "symbol": "AAPL",
                "order_side": "BUY",
                "spec": {"Market": {"quantity": "1"}},
                place: value,
            }
            bodies.append({"command": {"type": "CREATE", "payload": payload}})
        bodies.append({"command": {"type": value, "payload": value}})
        bodies.append({"command": {"type": "CANCEL", "payload": {"ref_intent_id": value}}})
        bodies.append({**create_body(), "client_reference_id": value})
        bodies.append(create_body("Limit", price=value, time_in_force=value))
    encoded = [json.dumps(body).encode() for body in bodies]
    encoded += [GOOD[:cut] for cut in range(0, len(GOOD), 4)]
    for _ in range(60):
        at = chance.randrange(len(GOOD))
        encoded.append(GOOD[:at] + bytes([chance.randrange(256)]) + GOOD[at + 1 :])
    return encoded


async def test_no_hostile_body_makes_us_fail(api: RestApi, tenant: Tenant) -> None:
    bodies = hostile_bodies()
    assert len(bodies) >= 200
    for body in bodies:
        answer = await api.submit_raw(tenant, body)
        if answer.status_code != 202:
            assert 400 <= answer.status_code < 500, (body, answer.text)
            problem(answer, answer.status_code, answer.json()["code"])


async def test_no_hostile_header_or_query_makes_us_fail(api: RestApi, tenant: Tenant) -> None:
    for value in (b"", b"\xff\xfe", b"a" * 5000, b"\0", b"; charset=", b"application/json; charset=\xff", b"-1", b"%"):
        for name in (
            "x-api-key",
            "authorization",
            "idempotency-key",
            "content-type",
            "accept",
            "x-request-id",
            "cookie",
        ):
            answer = await api.submit_raw(tenant, GOOD, {name: value})
            assert answer.status_code < 500, (name, value, answer.text)
        url = f"{intents_of(tenant)}?limit={quote(value)}&next_cursor=%ff%00&&="
        answer = await api.client.get(url, headers={"x-api-key": tenant.key, **JSON})
        problem(answer, 400, answer.json()["code"])
