"""Which doors a tick opens, as PostgreSQL and the simulation's memory both open them."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest

from openbell_server.application.execution.ports import DoorRequest, DoorTerms, Opened
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.orders.action_lifecycle import ActionState
from openbell_server.domain.orders.broker_reports import Accepted
from openbell_server.domain.orders.intents import CreateIntent
from openbell_server.domain.orders.order_aggregate import Order
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, TimeInForce
from support.builders.tenant import a_cancel, a_limit_create, a_market_create, a_replace, new_id, some_terms
from support.environment.tick_benches import ALL_SLOTS, TickBench

# ---- which open


async def test_doors_open_in_commit_order_and_no_more_than_asked_for(tick_bench: TickBench) -> None:
    creates = [await tick_bench.accept() for _ in range(4)]
    result = await tick_bench.tick(doors=[await tick_bench.request(3)])
    assert [each.action.action_id for each in result.opened] == [create.action_id for create in creates[:3]]
    assert result.long_way == {}
    states = [(await tick_bench.again(create)).state for create in creates]
    assert states == [ActionState.DISPATCHING] * 3 + [ActionState.QUEUED]


async def test_the_next_tick_opens_the_doors_that_were_left(tick_bench: TickBench) -> None:
    creates = [await tick_bench.accept() for _ in range(3)]
    opened = list[Opened]()
    for _ in range(3):
        opened += (await tick_bench.tick(doors=[await tick_bench.request(2)])).opened
    assert [each.action.action_id for each in opened] == [create.action_id for create in creates]


@pytest.mark.parametrize(
    "command", [a_limit_create("1.000000000000000001", "0.5"), a_market_create("3", "MSFT", "mine")]
)
async def test_an_opened_door_returns_the_terms_and_the_version_of_its_order(
    tick_bench: TickBench, command: CreateIntent
) -> None:
    create = await tick_bench.accept(command)
    result = await tick_bench.tick(doors=[await tick_bench.request()])
    (opened,) = result.opened
    found = await tick_bench.again(create)
    assert replace(opened.action, misses=()) == replace(found, misses=())
    assert (opened.account_id, opened.version) == (tick_bench.account.account_id, 1)
    assert (opened.action.state, opened.action.attempt_id) == (ActionState.DISPATCHING, tick_bench.attempts[-1])
    assert opened.action.send_started_at is not None
    assert result.at is not None
    assert opened.action.terms.client_reference_id == command.client_reference_id


async def test_an_opened_door_has_the_facts_it_was_asked_for_with(tick_bench: TickBench) -> None:
    await tick_bench.accept(a_limit_create("1.50", "0.5"))
    (opened,) = (await tick_bench.tick(doors=[await tick_bench.request()])).opened
    assert opened.action.order == Order(terms=some_terms(Decimal("0.5"), "1.50", TimeInForce.GOOD_TILL_CANCEL))
    terms = opened.action.terms
    assert (terms.symbol, terms.order_side, terms.order_type) == ("AAPL", OrderSide.BUY, OrderType.LIMIT)


async def test_accounts_of_one_tick_open_their_own_doors(tick_bench: TickBench) -> None:
    other = await tick_bench.database.another_account()
    ours, theirs = await tick_bench.accept(), await tick_bench.accept(account=other)
    doors = [await tick_bench.request(5, other), await tick_bench.request(5)]
    result = await tick_bench.tick(doors=doors)
    assert {(each.account_id, each.action.action_id) for each in result.opened} == {
        (tick_bench.account.account_id, ours.action_id),
        (other.account_id, theirs.action_id),
    }


async def test_one_tick_writes_an_answer_and_opens_the_next_door(tick_bench: TickBench) -> None:
    opened, create = await tick_bench.sent(), await tick_bench.accept()
    result = await tick_bench.tick([tick_bench.of(opened, Accepted("b"))], [await tick_bench.request()])
    assert result.written == [True]
    assert [each.action.action_id for each in result.opened] == [create.action_id]


async def test_an_account_without_work_needs_no_long_way(tick_bench: TickBench) -> None:
    result = await tick_bench.tick(doors=[await tick_bench.request()])
    assert (result.opened, result.long_way, result.at is not None) == ([], {}, True)


async def test_a_door_opens_again_for_nobody(tick_bench: TickBench) -> None:
    await tick_bench.sent()
    assert (await tick_bench.tick(doors=[await tick_bench.request()])).opened == []


# ---- which do not


CHANGES = {
    "epoch": "OTHER_EPOCH",
    "halt": "HALTED",
    "disabled": "DISABLED",
    "organization disabled": "DISABLED",
    "credential": "NOT_SIGNED_IN",
    "expired": "NOT_SIGNED_IN",
    "restored": "RESTORED",
    "revoked": "NOT_PLAIN",
    "deadline": "NOT_PLAIN",
}


@pytest.mark.parametrize(("change", "why"), CHANGES.items(), ids=CHANGES)
async def test_no_door_opens_after_a_change(tick_bench: TickBench, change: str, why: str) -> None:
    await tick_bench.accept()
    request = await tick_bench.request()
    await tick_bench.change(change)
    before = await tick_bench.record()
    result = await tick_bench.tick(doors=[request])
    assert (result.opened, result.long_way) == ([], {tick_bench.account.account_id: why})
    assert await tick_bench.record() == before


async def test_a_deadline_that_is_not_passed_stops_no_door(tick_bench: TickBench) -> None:
    await tick_bench.accept()
    await tick_bench.change("later deadline")
    assert len((await tick_bench.tick(doors=[await tick_bench.request()])).opened) == 1


Spoil = Callable[[DoorRequest], DoorRequest]


def judged(**values: int) -> Spoil:
    def spoil(request: DoorRequest) -> DoorRequest:
        terms: DoorTerms = replace(request.terms, **values)  # type: ignore[arg-type]
        return replace(request, terms=terms)

    return spoil


SPOILED: dict[str, tuple[Spoil, str]] = {
    "an epoch of the account": (judged(account_epoch=2), "OTHER_EPOCH"),
    "an epoch of the organization": (judged(organization_epoch=2), "OTHER_EPOCH"),
    "an earlier epoch of the organization": (judged(organization_epoch=0), "OTHER_EPOCH"),
    "another database": (judged(database_epoch=2), "RESTORED"),
    "a credential that it has not": (lambda request: replace(request, credential_version=1), "NOT_SIGNED_IN"),
    "another organization": (
        lambda request: replace(request, account=replace(request.account, organization_id=OrganizationId(new_id()))),
        "NOT_FOUND",
    ),
}


@pytest.mark.parametrize(("spoil", "why"), SPOILED.values(), ids=SPOILED)
async def test_no_door_opens_that_was_judged_by_something_else(tick_bench: TickBench, spoil: Spoil, why: str) -> None:
    await tick_bench.accept()
    before, request = await tick_bench.record(), spoil(await tick_bench.request())
    result = await tick_bench.tick(doors=[request])
    assert (result.opened, result.long_way) == ([], {tick_bench.account.account_id: why})
    assert await tick_bench.record() == before


async def test_each_account_is_judged_by_the_database_that_it_was_read_from(tick_bench: TickBench) -> None:
    other = await tick_bench.database.another_account()
    ours, _ = await tick_bench.accept(), await tick_bench.accept(account=other)
    outdated = judged(database_epoch=2)(await tick_bench.request(5, other))
    result = await tick_bench.tick(doors=[await tick_bench.request(), outdated])
    assert [each.action.action_id for each in result.opened] == [ours.action_id]
    assert result.long_way == {other.account_id: "RESTORED"}


async def test_no_door_opens_of_a_slot_that_the_caller_does_not_hold(tick_bench: TickBench) -> None:
    await tick_bench.accept()
    others = {*ALL_SLOTS} - {tick_bench.account.slot}
    result = await tick_bench.tick(doors=[await tick_bench.request()], slots=others)
    assert (result.opened, result.long_way) == ([], {tick_bench.account.account_id: "NOT_FOUND"})


async def test_an_account_that_is_not_there_has_no_terms_and_no_doors(tick_bench: TickBench) -> None:
    request = await tick_bench.request()
    nobody = replace(tick_bench.account, account_id=AccountId(new_id()))
    assert await tick_bench.ticks.door_terms_across_organizations([nobody.account_id]) == {}
    result = await tick_bench.tick(doors=[replace(request, account=nobody)])
    assert (result.opened, result.long_way) == ([], {nobody.account_id: "NOT_FOUND"})


# ---- cancels and replaces


@pytest.mark.parametrize("doors", [0, 1, 9])
async def test_a_queued_cancel_stops_every_door_of_its_account(tick_bench: TickBench, doors: int) -> None:
    opened = await tick_bench.sent()
    await tick_bench.accept()
    await tick_bench.accept(a_cancel(opened.action.intent_id))
    result = await tick_bench.tick(doors=[await tick_bench.request(doors)])
    assert (result.opened, result.long_way) == ([], {tick_bench.account.account_id: "CANCELS"})


async def test_without_room_no_door_opens(tick_bench: TickBench) -> None:
    await tick_bench.accept()
    result = await tick_bench.tick(doors=[await tick_bench.request(0)])
    assert (result.opened, result.long_way) == ([], {})


async def test_no_door_opens_behind_a_replace(tick_bench: TickBench) -> None:
    working = await tick_bench.bring(await tick_bench.accept(), ActionState.ACKED)
    first = await tick_bench.accept()
    await tick_bench.accept(a_replace(working.intent_id))
    await tick_bench.accept()
    result = await tick_bench.tick(doors=[await tick_bench.request()])
    assert [each.action.action_id for each in result.opened] == [first.action_id]
    assert result.long_way == {tick_bench.account.account_id: "NOT_PLAIN"}


async def test_a_replace_behind_the_last_door_is_not_looked_at(tick_bench: TickBench) -> None:
    create = await tick_bench.accept()
    await tick_bench.accept(a_replace((await tick_bench.bring(await tick_bench.accept(), ActionState.ACKED)).intent_id))
    result = await tick_bench.tick(doors=[await tick_bench.request(1)])
    assert [each.action.action_id for each in result.opened] == [create.action_id]
    assert result.long_way == {}


# ---- age


async def test_a_command_of_a_live_account_that_waited_for_a_minute_opens_no_door(tick_bench: TickBench) -> None:
    await tick_bench.change("live")
    await tick_bench.accept()
    await tick_bench.change("a minute")
    request = await tick_bench.request()
    assert request.terms.environment is Environment.LIVE
    result = await tick_bench.tick(doors=[request])
    assert (result.opened, result.long_way) == ([], {tick_bench.account.account_id: "NOT_PLAIN"})


async def test_a_younger_command_of_a_live_account_opens_its_door(tick_bench: TickBench) -> None:
    await tick_bench.change("live")
    await tick_bench.accept()
    await tick_bench.change("less than a minute")
    assert len((await tick_bench.tick(doors=[await tick_bench.request()])).opened) == 1


async def test_a_command_of_a_paper_account_may_wait_for_longer(tick_bench: TickBench) -> None:
    await tick_bench.accept()
    await tick_bench.change("a minute")
    assert len((await tick_bench.tick(doors=[await tick_bench.request()])).opened) == 1
