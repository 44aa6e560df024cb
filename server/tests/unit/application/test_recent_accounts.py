"""Accounts as they were read last."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from openbell_server.application.intents import account_cache
from openbell_server.application.intents.account_cache import RecentAccounts
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.identifiers import AccountId, OrganizationId
from support.builders.tenant import a_trading_account, new_id

MORNING = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)


class Accounts:
    """Implements AccountStore on a dictionary, and counts its reads."""

    def __init__(self, *accounts: TradingAccount) -> None:
        self.rows = {(each.organization_id, each.id): each for each in accounts}
        self.reads = 0

    async def find_account(self, organization_id: OrganizationId, account_id: AccountId) -> TradingAccount | None:
        self.reads += 1
        return self.rows.get((organization_id, account_id))


def an_account() -> TradingAccount:
    return a_trading_account(AccountId(new_id()), OrganizationId(new_id()))


async def later() -> datetime:
    return MORNING + timedelta(hours=1)


async def test_an_account_is_read_once_and_remembered_with_the_time_of_now() -> None:
    account = replace(an_account(), now=MORNING)
    accounts = Accounts(account)
    recent, where = RecentAccounts(accounts, later), (account.organization_id, account.id)
    first, again = await recent.remember(*where), await recent.remember(*where)
    assert first == again == account
    assert first is not None
    assert again is not None
    assert (first.now, again.now, accounts.reads) == (MORNING, await later(), 1)


async def test_what_is_read_anew_is_remembered_from_then_on() -> None:
    account = an_account()
    accounts = Accounts(account)
    recent, where = RecentAccounts(accounts, later), (account.organization_id, account.id)
    await recent.remember(*where)
    accounts.rows[where] = replace(account, disabled=True, account_epoch=2)
    known, read, then = await recent.remember(*where), await recent.find_account(*where), await recent.remember(*where)
    assert [each and each.disabled for each in (known, read, then)] == [False, True, True]


async def test_an_account_of_another_organization_is_not_remembered_for_it() -> None:
    account = an_account()
    recent = RecentAccounts(Accounts(account), later)
    assert await recent.remember(account.organization_id, account.id) is not None
    assert await recent.remember(OrganizationId(new_id()), account.id) is None


async def test_those_asked_about_longest_ago_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account_cache, "ACCOUNTS_MAX", 2)
    rows = [an_account() for _ in range(3)]
    accounts = Accounts(*rows)
    recent = RecentAccounts(accounts, later)
    for number in (0, 1, 0, 2, 0):
        await recent.remember(rows[number].organization_id, rows[number].id)
    assert accounts.reads == 3
    await recent.remember(rows[1].organization_id, rows[1].id)
    assert accounts.reads == 4
