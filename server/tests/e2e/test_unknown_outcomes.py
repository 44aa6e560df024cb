"""A broker that takes orders without answering: doubt is shown, asked about, and ended by evidence only."""

import httpx
import pytest

from openbell import Action, Client, Market
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import LocalPlatform


@pytest.fixture(scope="module")
def faults() -> str:
    return "seed=1,accept_then_hang=0.5,hang=0.5"


def latest(client: Client, intents: list[str]) -> list[Action]:
    return [client.intent(intent_id) for intent_id in intents]


def test_a_successor_asks_the_broker_and_sends_again_only_what_never_arrived(
    client: Client, platform: LocalPlatform
) -> None:
    intents = [client.buy("AAPL", Market(1)).intent_id for _ in range(8)]

    def one_is_on_its_way() -> bool:
        states = {action.status for action in latest(client, intents)}
        if states.isdisjoint({"QUEUED", "DISPATCHING"}):
            # On a machine that stood still all of them had their time before this looked.
            intents.append(client.buy("AAPL", Market(1)).intent_id)
        return "DISPATCHING" in states

    assert wait_until(one_is_on_its_way, 180)
    platform.stack.kill("executor")
    platform.stack.start("executor")
    assert wait_until(lambda: all(a.status in {"ACKED", "FAILED"} for a in latest(client, intents)), 300)
    ends = {
        (a.status, a.execution.status, a.reason.code if a.reason else None)
        for a in latest(client, intents)
        if a.execution
    }
    # About half were taken in silence, and half never arrived: those go out again, and three in a row may be lost.
    assert ends <= {("ACKED", "FILLED", None), ("FAILED", "FAILED", "NOT_AT_BROKER")}
    assert ("ACKED", "FILLED", None) in ends
    books = httpx.get(f"{platform.paper_url}/ledger/summary", timeout=60).json()
    assert books["repeated_submits"] == 0


def test_silence_is_shown_as_unknown_with_its_evidence(client: Client) -> None:
    intents = [client.buy("AAPL", Market(1)).intent_id for _ in range(16)]

    def doubted() -> list[Action]:
        return [action for action in latest(client, intents) if action.status == "UNKNOWN"]

    assert wait_until(
        lambda: any(a.execution and a.execution.unknown and a.execution.unknown.probes for a in doubted()), 300
    )
    for action in doubted():
        assert action.execution is not None
        assert (action.execution.status, action.execution.certainty) == ("UNKNOWN", "UNKNOWN")
        assert action.execution.unknown is not None
        assert action.execution.unknown.settles_by
