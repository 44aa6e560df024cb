"""The operator's commands on actions in doubt: seen, settled on what the broker's books say, and audited."""

import json

import pytest

from openbell_server.domain.identifiers import IntentId, client_order_id
from openbell_server.domain.orders.broker_reports import ReportStatus, Unknown
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_cancel, a_limit_create, a_replace, a_report
from support.environment.command_line import CommandLine, audited

WHY = ("--because", "seen on the broker's screen", "--by", "olga")


@pytest.fixture
def operator(database: str) -> CommandLine:
    return CommandLine(database)


async def in_doubt(harness: Harness) -> tuple[IntentId, str]:
    """A create that nobody knows the outcome of: its intent and its id."""
    intent = await harness.accept(a_limit_create())
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    return intent, str(door.action.action_id)


async def test_actions_in_doubt_are_listed_the_oldest_first(operator: CommandLine, harness: Harness) -> None:
    (_, first), (_, second) = await in_doubt(harness), await in_doubt(harness)
    await harness.accept()
    await harness.open_doors()
    listed = (await operator.read("actions", "list", "--unknown"))["actions"]
    assert [row["action_id"] for row in listed] == [first, second]
    assert {(row["action_type"], row["broker"], row["writes"], row["look_ups"]) for row in listed} == {
        ("CREATE", "paper", 1, 0)
    }
    assert len((await operator.read("actions", "list"))["actions"]) == 3
    table = await operator.say("actions", "list", "--unknown")
    assert first in table
    assert "These are the oldest 1" in await operator.say("actions", "list", "--limit", "1")


@pytest.mark.parametrize(
    ("ends_as", "state", "standing", "close_reason"),
    [
        ("refused", "REFUSED", "CLOSED", "REJECTED"),
        ("failed", "FAILED", "CLOSED", "FAILED"),
        ("abandoned", "ABANDONED", "CLOSED", "RECONCILED_OUT"),
    ],
)
async def test_an_order_in_doubt_ends_as_an_operator_says_with_event_and_audit(
    operator: CommandLine, harness: Harness, ends_as: str, state: str, standing: str, close_reason: str
) -> None:
    intent, action = await in_doubt(harness)
    settled = await operator.read("actions", "settle", action, "--as", ends_as, *WHY)
    assert (settled["status"], settled["order_closed_as"], settled["settled_now"]) == (state, close_reason, True)
    assert await harness.states() == [("CREATE", state, "SETTLED_BY_OPERATOR")]
    order = await harness.order(intent)
    assert (order["standing"], order["close_reason"], order["certainty"]) == (standing, close_reason, "CONFIRMED")
    told = await harness.told("SETTLED_BY_OPERATOR")
    assert (told["status"], told["reason"]["broker_text"]) == (state, WHY[1])
    ((operation, object_id, before, after),) = await audited(harness.pool)
    assert (operation, object_id) == ("actions settle", action)
    assert (before["status"], after["status"], after["because"]) == ("UNKNOWN", state, WHY[1])


async def test_an_order_that_the_broker_has_is_acknowledged_by_its_id_there_and_followed(
    operator: CommandLine, harness: Harness
) -> None:
    intent, action = await in_doubt(harness)
    settled = await operator.read("actions", "settle", action, "--as", "acked", "--broker-order-id", "b7", *WHY)
    assert (settled["status"], settled["broker_order_ids"]) == ("ACKED", ["b7"])
    order = await harness.order(intent)
    assert (order["standing"], order["broker_order_ids"], order["pending"]) == ("WORKING", ["b7"], "NONE")
    await harness.accept(a_cancel(intent))
    await harness.work()
    assert harness.broker.writes[-1].command == "cancel"


async def test_an_order_that_was_given_up_and_shows_is_back(operator: CommandLine, harness: Harness) -> None:
    intent, action = await in_doubt(harness)
    await operator.read("actions", "settle", action, "--as", "abandoned", *WHY)
    order_id = client_order_id(await harness.pool.fetchval("select action_id from action_states"))
    await harness.report(a_report(ReportStatus.WORKING, client_order_id=order_id))
    assert (await harness.states())[0][:2] == ("CREATE", "ACKED")
    assert (await harness.order(intent))["standing"] == "WORKING"


@pytest.mark.parametrize("command", ["REPLACE", "CANCEL"])
@pytest.mark.parametrize("ends_as", ["acked", "refused", "failed", "abandoned"])
async def test_a_change_in_doubt_leaves_its_order_working(
    operator: CommandLine, harness: Harness, command: str, ends_as: str
) -> None:
    intent, _ = await harness.working()
    await harness.accept(a_replace(intent) if command == "REPLACE" else a_cancel(intent))
    harness.broker.script.append(Unknown("no answer"))
    (door,) = await harness.work()
    settled = await operator.read("actions", "settle", str(door.action.action_id), "--as", ends_as, *WHY)
    assert (settled["status"], settled["order"]) == (ends_as.upper(), "WORKING")
    order = await harness.order(intent)
    taken = ends_as == "acked"
    assert order["quantity"] == (12 if taken and command == "REPLACE" else 10)
    assert order["pending"] == ("CANCEL" if taken and command == "CANCEL" else "NONE")


async def test_the_same_word_twice_is_answered_and_audited_once(operator: CommandLine, harness: Harness) -> None:
    _, action = await in_doubt(harness)
    words = ("actions", "settle", action, "--as", "failed", *WHY)
    first, second = await operator.read(*words), await operator.read(*words)
    assert (first["settled_now"], second["settled_now"]) == (True, False)
    assert {name: value for name, value in first.items() if name != "settled_now"} == {
        name: value for name, value in second.items() if name != "settled_now"
    }
    assert len(await audited(harness.pool)) == 1


async def test_only_what_is_unknown_can_be_settled(operator: CommandLine, harness: Harness) -> None:
    _, action = await in_doubt(harness)
    said = await operator.refused("actions", "settle", action, "--as", "acked", *WHY)
    assert "--broker-order-id" in said
    said = await operator.refused("actions", "settle", action, "--as", "failed", "--broker-order-id", "b1", *WHY)
    assert "--as acked only" in said
    assert "1 to" in await operator.refused("actions", "settle", action, "--as", "failed", "--because", " ")
    await operator.read("actions", "settle", action, "--as", "failed", *WHY)
    said = await operator.refused("actions", "settle", action, "--as", "abandoned", *WHY)
    assert said.startswith("The action is FAILED: only one that is UNKNOWN")
    nobody = "00000000-0000-7000-8000-000000000000"
    assert "There is no action" in await operator.refused("actions", "settle", nobody, "--as", "failed", *WHY)
    assert "UUID" in await operator.refused("actions", "settle", "7", "--as", "failed", *WHY)


async def test_settled_actions_are_told_as_json_and_in_words(operator: CommandLine, harness: Harness) -> None:
    _, action = await in_doubt(harness)
    said = await operator.run("actions", "settle", action, "--as", "abandoned", *WHY)
    assert "RECONCILED_OUT" in said.output
    again = json.loads((await operator.run("actions", "settle", action, "--as", "abandoned", *WHY, "--json")).output)
    assert again["settled_now"] is False
