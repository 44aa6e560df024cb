"""What the console forwards to the api, what it refuses, and how streams end."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.application.console import sessions
from support.builders.tenant import Tenant
from support.console.served_console import OWN_SITE, Browser, ServedConsole, one_console, served, until
from support.environment.raw_requests import raw_status
from support.rest.served_events import asked, events_of
from support.tenancy.statements import Owner

STREAM = {"accept": "text/event-stream"}


@contextlib.asynccontextmanager
async def following(browser: Browser, tenant: Tenant, **headers: str) -> AsyncIterator[httpx.Response]:
    sent = browser.cookie_header | STREAM | headers
    async with browser.client.stream("GET", events_of(tenant), headers=sent) as response:
        yield response


async def test_a_change_is_recorded_as_made_by_the_person(console: ServedConsole, owner: Owner, tenant: Tenant) -> None:
    browser = await console.signed_in()
    made = await browser.post(
        "/v1/api-keys", json={"name": "bot", "environment": "paper", "permissions": ["intent:read"]}
    )
    assert made.status_code == 201, made.text
    entry = await owner.fetchrow("select principal_type, principal_id from audit_log order by entry_no desc limit 1")
    assert entry is not None
    assert tuple(entry) == ("USER", "maya")


async def test_what_the_user_may_not_the_console_cannot(console: ServedConsole) -> None:
    console.provider.role = "read_only"
    browser = await console.signed_in()
    body = {"name": "bot", "environment": "paper", "permissions": ["intent:read"]}
    refused = await browser.post("/v1/api-keys", json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "permission_denied")


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-openbell-console": "1"},
        {"sec-fetch-site": "same-origin"},
        {"sec-fetch-site": "cross-site", "x-openbell-console": "1"},
        {"sec-fetch-site": "same-site", "x-openbell-console": "1"},
        {"sec-fetch-site": "none", "x-openbell-console": "1"},
        {"sec-fetch-site": "same-origin", "x-openbell-console": "0"},
    ],
    ids=str,
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/api-keys"),
        ("PUT", "/v1/controls/rules/QTY_MAX"),
        ("PATCH", "/v1/accounts/1"),
        ("DELETE", "/v1/api-keys/1"),
        ("POST", "/console/logout"),
        ("POST", "/console/logout-everywhere"),
        ("POST", "/console/"),
    ],
)
async def test_a_change_that_does_not_come_from_the_pages_is_refused(
    console: ServedConsole, method: str, path: str, headers: dict[str, str]
) -> None:
    browser = Browser(console.client)
    refused = await browser.request(method, path, headers)
    assert (refused.status_code, refused.json()["code"]) == (403, "cross_site")


async def test_a_session_does_not_help_a_change_from_another_site(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    for path in ("/v1/api-keys", "/console/logout"):
        assert (await browser.request("POST", path, {"sec-fetch-site": "cross-site"})).status_code == 403
    assert (await browser.get("/v1/me", {"sec-fetch-site": "cross-site"})).status_code == 403
    assert (await browser.get("/v1/me", {"sec-fetch-site": "none"})).status_code == 200
    assert await owner.fetchval("select count(*) from console_sessions") == 1


@pytest.mark.parametrize(
    "target",
    [
        *("/metrics", "/healthz", "/openapi.json", "/docs", "/alpaca/v2/account", "/v1", "/v1/", "/v10/me", "/V1/me"),
        *("/v1/../metrics", "/v1/..", "/v1/./me", "/v1//me", "//v1/me", "/v1/me/", "/v1/me/../../metrics"),
        *("/v1/%2e%2e/metrics", "/v1/..%2fmetrics", "/v1%2fme", "/v1/%6de", "/v1/me%00", "/v1/me;x", "/v1\\me"),
        *("/v1/.well-known", "/console/../v1/me", "/console/..%2fv1/me"),
    ],
)
async def test_only_plain_paths_of_v1_are_forwarded(console: ServedConsole, target: str) -> None:
    browser = await console.signed_in()
    status, body = await raw_status(console.url, target, browser.cookie_header)
    # Paths below /console/ show the page.
    assert status in ((200, 503) if target.startswith("/console/") else (400, 404)), body
    assert b"maya" not in body
    assert b"openbell_build_info" not in body


class Recorder:
    """Stands where the api is, and shows what arrives there."""

    def __init__(self) -> None:
        self.headers: list[tuple[str, str]] = []

    async def __call__(self, scope: dict[str, Any], receive: object, send: Any) -> None:
        self.headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
        headers = [
            (b"content-type", b"application/json"),
            (b"etag", b'"3"'),
            (b"set-cookie", b"planted=1"),
            (b"location", b"/v1/x"),
            (b"access-control-allow-origin", b"*"),
            (b"content-security-policy", b"default-src *"),
            (b"server", b"secret"),
            (b"x-request-id", b"r1"),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})


async def test_headers_pass_by_a_list_in_both_directions(console: ServedConsole, login_url: str) -> None:
    recorder = Recorder()
    port = int(httpx.URL(console.url).port or 0) + 1
    async with served(recorder, port), one_console(login_url, console.provider, f"http://127.0.0.1:{port}") as before:
        browser = await before.signed_in()
        passing = {
            "accept": "application/json",
            "if-match": '"3"',
            "idempotency-key": "k",
            "last-event-id": "e",
            "x-request-id": "r1",
        }
        dropped = {
            "authorization": "Bearer mine",
            "x-api-key": "ob_paper_0_x",
            "x-organization-id": "11111111-1111-1111-1111-111111111111",
            "x-forwarded-for": "10.0.0.1",
            "forwarded": "for=10.0.0.1",
            "origin": "https://evil.example.com",
            "referer": "https://evil.example.com",
            "x-http-method-override": "DELETE",
            "te": "trailers",
        }
        answer = await browser.get("/v1/me", passing | dropped)
    seen = dict(recorder.headers)
    assert len(seen) == len(recorder.headers)
    assert seen.pop("authorization") == f"Bearer {console.provider.issued[-2]}"
    assert seen.pop("x-forwarded-for") == "127.0.0.1"
    assert seen == passing | {"host": f"127.0.0.1:{port}", "accept-encoding": "identity"}
    shown = set(answer.headers)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")
    assert (answer.headers["etag"], answer.headers["x-request-id"]) == ('"3"', "r1")
    assert not {"set-cookie", "access-control-allow-origin", "server"} & shown


async def test_a_body_over_64_kib_is_refused(console: ServedConsole) -> None:
    browser = await console.signed_in()
    refused = await browser.post("/v1/api-keys", content=b" " * 70_000)
    assert (refused.status_code, refused.json()["code"]) == (413, "body_too_large")


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "PROPFIND"])
async def test_other_methods_are_refused(console: ServedConsole, method: str) -> None:
    browser = await console.signed_in()
    assert (await browser.request(method, "/v1/me", OWN_SITE)).status_code == 405


async def test_an_api_that_is_away_is_a_problem_document(console: ServedConsole, login_url: str) -> None:
    async with one_console(login_url, console.provider, "http://127.0.0.1:1") as alone:
        browser = await alone.signed_in()
        answer = await browser.get("/v1/me")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "unavailable", "1")
    assert answer.headers["content-type"] == "application/problem+json"


async def frame_names(response: httpx.Response) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        if line.startswith("event: "):
            yield line.removeprefix("event: ")


async def test_events_arrive_as_they_are_written(console: ServedConsole, pool: Pool, tenant: Tenant) -> None:
    browser = await console.signed_in()
    async with asyncio.timeout(60), following(browser, tenant) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        names = frame_names(response)
        assert await anext(names) == "subscribed"
        await asked(pool, tenant, 1)
        while await anext(names) != "intent_action":
            pass


@pytest.mark.parametrize("way", ["/console/logout", "/console/logout-everywhere", "row"])
async def test_a_stream_ends_with_its_session(console: ServedConsole, owner: Owner, tenant: Tenant, way: str) -> None:
    browser = await console.signed_in()
    async with asyncio.timeout(60), following(browser, tenant) as response:
        names = frame_names(response)
        assert await anext(names) == "subscribed"
        if way == "row":
            # As another process of the console ends it.
            await owner.execute("delete from console_sessions")
        else:
            assert (await browser.post(way)).status_code == 204
        # To its end, which is a whole answer.
        [name async for name in names]


async def test_a_stream_ends_with_its_token_and_resumes_with_the_next(
    console: ServedConsole, pool: Pool, tenant: Tenant
) -> None:
    console.provider.lifetime = 8
    browser = await console.signed_in()
    console.provider.lifetime = 3600
    last = ""
    async with asyncio.timeout(60), following(browser, tenant) as response:
        await asked(pool, tenant, 1)
        async for line in response.aiter_lines():
            last = line.removeprefix("id: ") if line.startswith("id: ") else last
    await asked(pool, tenant, 1)
    async with asyncio.timeout(60), following(browser, tenant, **{"last-event-id": last}) as response:
        assert response.status_code == 200
        numbers = []
        async for line in response.aiter_lines():
            if line.startswith("data: ") and (number := json.loads(line[6:]).get("account_seq")):
                numbers.append(number)
            if numbers and numbers[-1] == 2:
                break
    assert console.provider.refreshes == ["refresh-0"]


async def test_a_browser_that_leaves_ends_its_stream(console: ServedConsole, tenant: Tenant) -> None:
    browser = await console.signed_in()
    for _ in range(3 * sessions.STREAMS_MAX):
        async with asyncio.timeout(60):

            async def is_open() -> bool:
                async with following(browser, tenant) as response:
                    return response.status_code == 200

            await until(is_open)


async def test_a_session_has_a_limited_number_of_streams(
    console: ServedConsole, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "STREAMS_MAX", 2)
    browser, other = await console.signed_in(), await console.signed_in()
    async with asyncio.timeout(60), following(browser, tenant) as first, following(browser, tenant) as second:
        assert (first.status_code, second.status_code) == (200, 200)
        refused = await browser.get(events_of(tenant), STREAM)
        assert (refused.status_code, refused.json()["code"]) == (429, "too_many_streams")
        async with following(other, tenant) as third:
            assert third.status_code == 200
