"""Keys at the paper broker: which are let in, what a command signed with them meets, and that no secret is kept."""

from datetime import UTC, datetime

import asyncpg
import pytest

from openbell_server.brokers.http_client import read
from openbell_server.brokers.paper.keys import KEY_EXPIRED, KEY_REFUSED, Key, KeyTerms, judge, key_of, signature
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import LastKeyBody
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.credentials import Secrets, SignedIn, SignInRefused
from openbell_server.domain.orders.broker_reports import Accepted, Outcome, Refused
from support.brokers.paper_broker import (
    ACCOUNT,
    ask,
    named,
    new_order,
    replacement,
    resting,
    running,
    settings_of,
    soon,
)

NOW = datetime(2026, 11, 15, 12, tzinfo=UTC)
CANARY = "canary-4711-secret"


@pytest.mark.parametrize(
    ("key_id", "secret", "judged"),
    [
        ("anything", "s", KeyTerms()),
        ("WRONG-1", "s", KEY_REFUSED),
        ("anything", "wrong", KEY_REFUSED),
        ("EXPIRED-1", "s", KEY_EXPIRED),
        ("ACCT-DU77", "s", KeyTerms(external_account_id="DU77")),
        ("ACCT-DU77-second", "s", KeyTerms(external_account_id="DU77")),
        ("UNTIL-2026-11-15", "s", KeyTerms(expires_at=datetime(2026, 11, 16, tzinfo=UTC))),
        ("UNTIL-2026-11-14-x", "s", KEY_EXPIRED),
        ("UNTIL-2026-13-45", "s", KEY_REFUSED),
        ("UNTIL-9999-12-31", "s", KEY_REFUSED),
    ],
)
def test_what_becomes_of_a_key_follows_from_its_spelling(key_id: str, secret: str, judged: KeyTerms | str) -> None:
    assert judge(Key(key_id, secret), NOW) == judged


def test_a_key_comes_through_its_header_as_it_was() -> None:
    key = Key("a:b ü%", "s:ü\n")
    assert key_of(signature(key)) == key
    assert CANARY not in repr(Key("k", CANARY))


@pytest.mark.parametrize("header", ["", "Basic", "Basic !", "Basic eA==", "Bearer YTpi", "Basic JTAwOmE="])
def test_a_header_that_is_no_key_is_none(header: str) -> None:
    assert key_of(header) is None


def secrets(key_id: str, secret: str = CANARY) -> Secrets:
    return Secrets({"key_id": key_id, "secret": secret})


async def last_key(session: PaperSession) -> str | None:
    path = f"/accounts/{ACCOUNT}/session"
    return read(await session._http.query(session._http.request("GET", path, headers={})), LastKeyBody).key_id


async def every_command(session: PaperSession) -> list[Outcome]:
    order = resting()
    return [
        await session.submit(order),
        await session.replace(replacement(order, order.limit_price)),
        await session.cancel(ACCOUNT, named(order.client_order_id), soon()),
    ]


async def test_commands_carry_the_key_that_the_account_signed_in_with(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        assert await last_key(session) is None
        assert await session.sign_in(ACCOUNT, Environment.PAPER, secrets("ACCT-DU77-1")) == SignedIn("DU77")
        assert await last_key(session) == "ACCT-DU77-1"
        assert [type(each) for each in await every_command(session)] == [Accepted] * 3
        assert await session.sign_in(ACCOUNT, Environment.PAPER, secrets("second")) == SignedIn()
        await session.submit(new_order())
        await session.sign_out(ACCOUNT)
        await session.submit(new_order())
    ledger = await asyncpg.connect(ledger_url)
    try:
        signed = await ledger.fetch("select kind, key_id from requests order by number")
    finally:
        await ledger.close()
    assert [tuple(row) for row in signed] == [
        ("SIGN_IN", "ACCT-DU77-1"),
        ("SUBMIT", "ACCT-DU77-1"),
        ("REPLACE", "ACCT-DU77-1"),
        ("CANCEL", "ACCT-DU77-1"),
        ("SIGN_IN", "second"),
        ("SUBMIT", "second"),
        ("SUBMIT", None),
    ]


async def test_a_refused_sign_in_leaves_the_account_with_the_key_it_had(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        await session.sign_in(ACCOUNT, Environment.PAPER, secrets("first"))
        refused = await session.sign_in(ACCOUNT, Environment.PAPER, secrets("WRONG"))
        assert isinstance(refused, SignInRefused)
        assert not refused.expired
        expired = await session.sign_in(ACCOUNT, Environment.PAPER, secrets("EXPIRED"))
        assert isinstance(expired, SignInRefused)
        assert expired.expired
        assert await session.sign_in(ACCOUNT, Environment.PAPER, secrets("first", "wrong")) == refused
        await session.submit(new_order())
        assert await last_key(session) == "first"


async def test_a_command_signed_with_a_key_that_is_not_let_in_is_refused_for_good(ledger_url: str) -> None:
    async with running(settings_of(ledger_url)) as session:
        order = resting()
        await session.submit(order)
        session._secrets[ACCOUNT] = secrets("WRONG")
        for outcome in await every_command(session):
            assert isinstance(outcome, Refused)
            assert outcome.broker_code == KEY_REFUSED
        with pytest.raises(Exception, match="401"):
            await session.find(ACCOUNT, named(order.client_order_id))


async def test_a_broker_out_of_reach_tells_nothing_about_a_key() -> None:
    session = PaperSession("http://127.0.0.1:9")
    with pytest.raises(Exception, match="connect"):
        await session.sign_in(ACCOUNT, Environment.PAPER, secrets("first"))
    await session.close()


async def test_no_secret_is_in_the_ledger_or_in_an_answer(ledger_url: str) -> None:
    settings = settings_of(ledger_url)
    async with running(settings) as session:
        await session.sign_in(ACCOUNT, Environment.PAPER, secrets("first"))
        await session.sign_in(ACCOUNT, Environment.PAPER, secrets("WRONG"))
        await session.submit(new_order())
        assert CANARY not in (await ask(settings, "GET", f"/accounts/{ACCOUNT}/session")).text
    ledger = await asyncpg.connect(ledger_url)
    try:
        for (table,) in await ledger.fetch("select tablename from pg_tables where schemaname = 'public'"):
            assert CANARY not in str(await ledger.fetch(f"select t::text from {table} t"))
    finally:
        await ledger.close()
