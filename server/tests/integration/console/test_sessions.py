"""Sessions of the console: how long they last, how their tokens are renewed, and how they end everywhere."""

import asyncio
from collections.abc import Sequence

import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.console import console_sessions
from openbell_server.adapters.postgres.console.console_sessions import PostgresConsoleSessions
from support.console.served_console import SESSION, Browser, ServedConsole, one_console, until
from support.tenancy.statements import Owner

# A token that must be renewed now, and one that has also ended.
DUE = "update console_sessions set token_expires_at = clock_timestamp() + interval '20 seconds'"
ENDED = "update console_sessions set token_expires_at = clock_timestamp() - interval '1 second'"


async def is_signed_in(browser: Browser) -> bool:
    status = (await browser.get("/console/session")).status_code
    assert status in (200, 401)
    return status == 200


async def is_signed_out(browser: Browser) -> bool:
    return not await is_signed_in(browser)


async def test_a_session_ends_by_signing_out_and_its_row_is_gone(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    kept = Browser(console.client, dict(browser.cookies))
    assert (await browser.post("/console/logout")).status_code == 204
    assert SESSION not in browser.cookies
    assert (await kept.get("/v1/me")).json()["code"] == "signed_out"
    assert await owner.fetchval("select count(*) from console_sessions") == 0
    assert (await browser.post("/console/logout")).status_code == 204


async def test_signing_out_everywhere_ends_the_sessions_of_this_user_in_every_process(
    console: ServedConsole, login_url: str
) -> None:
    here = [await console.signed_in() for _ in range(2)]
    async with one_console(login_url, console.provider, console.api_url) as other:
        there = await other.signed_in()
        console.provider.subject = "noah"
        noah = await other.signed_in()
        assert all([await is_signed_in(browser) for browser in (*here, there, noah)])
        assert (await here[0].post("/console/logout-everywhere")).status_code == 204
        assert not await is_signed_in(here[0])
        assert not await is_signed_in(here[1])
        await until(lambda: is_signed_out(there))
        assert await is_signed_in(noah)


@pytest.mark.parametrize("aged", ["expires_at = clock_timestamp()", "last_used_at = now() - interval '61 minutes'"])
async def test_a_session_ends_at_its_greatest_age_or_when_it_is_not_used(
    console: ServedConsole, owner: Owner, aged: str
) -> None:
    browser = await console.signed_in()
    await owner.execute(f"update console_sessions set {aged}")
    await until(lambda: is_signed_out(browser))


async def test_a_session_lives_twelve_hours_and_its_use_is_noted(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    assert await owner.fetchval("select expires_at - created_at from console_sessions") == pytest.approx(
        await owner.fetchval("select interval '12 hours'"), abs=await owner.fetchval("select interval '1 minute'")
    )
    await owner.execute("update console_sessions set last_used_at = now() - interval '30 minutes'")

    async def is_noted() -> object:
        await browser.get("/v1/me")
        return await owner.fetchval("select last_used_at > now() - interval '5 minutes' from console_sessions")

    await until(is_noted)


async def test_a_stream_is_no_use_of_the_session(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    await owner.execute("update console_sessions set last_used_at = now() - interval '30 minutes'")

    async def is_read_again() -> bool:
        """The renewal of a token shows that the row was read after it was changed."""
        assert (await browser.get("/v1/me", {"accept": "text/event-stream"})).status_code == 200
        assert await is_signed_in(browser)
        return bool(console.provider.refreshes)

    await owner.execute(DUE)
    await until(is_read_again)
    assert await owner.fetchval("select last_used_at < now() - interval '29 minutes' from console_sessions")


async def test_ended_sessions_are_deleted_in_limited_batches(
    console: ServedConsole, owner: Owner, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_sessions, "PRUNED_ROWS_MAX", 2)
    for _ in range(3):
        await console.signed_in()
    await owner.execute("update console_sessions set last_used_at = now() - interval '2 hours'")
    live = await console.signed_in()
    store = PostgresConsoleSessions(pool)
    assert [await store.prune() for _ in range(3)] == [2, 1, 0]
    assert await is_signed_in(live)


def _worked(answers: Sequence[httpx.Response]) -> bool:
    """None was signed out; on a machine that stands still a call may be answered 503, and is made again."""
    statuses = {answer.status_code for answer in answers}
    assert statuses <= {200, 503}, [answer.text for answer in answers]
    return statuses == {200}


@pytest.mark.parametrize("state", [DUE, ENDED])
async def test_twenty_requests_at_once_renew_a_token_once(console: ServedConsole, owner: Owner, state: str) -> None:
    browser = await console.signed_in()
    await owner.execute(state)

    async def is_renewed() -> bool:
        answers = await asyncio.gather(*(browser.get("/v1/me") for _ in range(20)))
        return _worked(answers) and len(console.provider.refreshes) > 0

    await until(is_renewed)
    await asyncio.gather(*(browser.get("/v1/me") for _ in range(20)))
    assert console.provider.refreshes == ["refresh-0"]
    assert await owner.fetchval("select refreshes from console_sessions") == 1


async def test_two_processes_renew_a_token_once(console: ServedConsole, login_url: str, owner: Owner) -> None:
    browser = await console.signed_in()
    async with one_console(login_url, console.provider, console.api_url) as other:
        same = Browser(other.client, dict(browser.cookies))
        await owner.execute(ENDED)

        async def is_renewed() -> bool:
            answers = await asyncio.gather(*(each.get("/v1/me") for each in (browser, same) for _ in range(10)))
            return _worked(answers) and len(console.provider.refreshes) > 0

        await until(is_renewed)
        await asyncio.gather(*(each.get("/v1/me") for each in (browser, same) for _ in range(10)))
    assert console.provider.refreshes == ["refresh-0"]


async def test_a_renewed_token_can_be_renewed_again(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    for count in (1, 2):
        await owner.execute(ENDED)

        async def is_renewed(count: int = count) -> bool:
            assert (await browser.get("/v1/me")).status_code == 200
            return len(console.provider.refreshes) == count

        await until(is_renewed)
    assert console.provider.refreshes == ["refresh-0", "refresh-2"]


async def test_a_refused_renewal_ends_the_session(console: ServedConsole, owner: Owner) -> None:
    browser = await console.signed_in()
    console.provider.refresh_answer = 400, {"error": "invalid_grant"}
    await owner.execute(ENDED)
    await until(lambda: is_signed_out(browser))
    assert (await browser.get("/v1/me")).json()["code"] == "signed_out"
    assert await owner.fetchval("select count(*) from console_sessions") == 0


@pytest.mark.parametrize("answer", [(503, {}), (400, {"error": "invalid_client"})], ids=["away", "settings"])
async def test_a_provider_that_is_away_ends_no_session(
    console: ServedConsole, owner: Owner, answer: tuple[int, dict[str, object]]
) -> None:
    browser = await console.signed_in()
    console.provider.refresh_answer = answer
    await owner.execute(DUE)

    async def was_asked() -> bool:
        assert (await browser.get("/v1/me")).status_code == 200
        return bool(console.provider.refreshes)

    await until(was_asked)
    await owner.execute(ENDED)

    async def is_unavailable() -> bool:
        response = await browser.get("/v1/me")
        return response.status_code == 503 and response.json()["code"] == "unavailable"

    await until(is_unavailable)
    console.provider.refresh_answer = None
    await owner.execute("update console_sessions set refresh_claimed_until = null")

    async def is_back() -> bool:
        return (await browser.get("/v1/me")).status_code == 200

    await until(is_back)


async def test_without_refresh_tokens_a_session_lasts_as_long_as_its_token(
    console: ServedConsole, owner: Owner
) -> None:
    console.provider.has_refresh_tokens = False
    browser = await console.signed_in()
    assert await owner.fetchval(
        "select abs(extract(epoch from expires_at - token_expires_at)) < 1 from console_sessions"
    )
    assert (await browser.get("/v1/me")).status_code == 200
    await owner.execute(ENDED)
    await until(lambda: is_signed_out(browser))
    assert console.provider.refreshes == []
