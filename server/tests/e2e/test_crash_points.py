"""Every named crash point, killed at: whatever was asked ends in the truth, once."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator

import pytest

from openbell import Action, Client, Market, OpenbellError
from openbell_server.application.crash_points import POINTS
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.demo.ledgers import FAULTS, compare
from openbell_server.devtools.local_platform import LocalPlatform
from openbell_server.devtools.stack import PROCESSES
from proof.books import read_books, until_settled
from proof.load import clients

# An account with a rule opens its doors in a transaction of its own.
LONG_WAY = {"executor.before_door", "executor.inside_door"}
# Some of them meet silence; none of the points needs more than a few that do not.
KEYS_MAX = 30


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalPlatform]:
    # Some silence, so that the points on the way from doubt to proof are reached too.
    settings = {"OPENBELL_PAPER_FAULTS": "seed=3,hang=0.4"}
    with LocalPlatform(tmp_path_factory.mktemp("logs"), settings, accounts=len(POINTS)) as running:
        yield running


@pytest.fixture(scope="module")
def unused_accounts(platform: LocalPlatform) -> Iterator[str]:
    return iter([str(account_id) for account_id in platform.seeded.account_ids])


@pytest.fixture
def account_id(unused_accounts: Iterator[str]) -> str:
    """One of its own for each test: what another left in doubt keeps nothing of it waiting."""
    return next(unused_accounts)


@pytest.fixture(scope="module")
def accepted(platform: LocalPlatform) -> Iterator[list[Action]]:
    """Every intent that was accepted; at the end both ledgers are held against each other."""
    intents: list[Action] = []
    yield intents

    async def judge() -> None:
        assert await until_settled(platform, 180) == 0
        async with clients(platform, 1) as (client,):
            comparison = compare(await read_books(platform, client, intents))
        assert {fault: comparison.findings[fault] for fault in FAULTS} == {fault: [] for fault in FAULTS}

    asyncio.run(judge())


def test_an_unarmed_point_does_nothing_and_an_unknown_one_is_refused(platform: LocalPlatform) -> None:
    assert platform.stack.watch() == []
    platform.stack.start("executor-2", {"OPENBELL_CRASH_AT": "executor.nowhere"})
    assert wait_until(lambda: platform.stack.watch() == ["executor-2"], 180)
    assert "no crash point" in platform.stack.log("executor-2").read_text()
    platform.stack.kill("executor-2")


@pytest.fixture(autouse=True)
def all_running(platform: LocalPlatform) -> None:
    """One test's trouble is not the next one's."""
    for name in PROCESSES:
        if not platform.stack.is_running(name):
            platform.stack.start(name, {})
            platform.stack.wait_ready(name)


@pytest.mark.parametrize("point", sorted(POINTS))
def test_a_process_killed_there_loses_and_doubles_nothing(
    client: Client, platform: LocalPlatform, accepted: list[Action], point: str
) -> None:
    process = point.split(".")[0]
    keys: list[str] = []
    if point in LONG_WAY:
        client.set_rule("QTY_MAX", {"quantity": "1000"}, reason="every door is checked")

    def reached() -> bool:
        platform.stack.kill(process)
        if process == "executor":
            assert wait_until(lambda: abandon_an_action(client, platform, accepted), 180)
        if process == "relay":
            # It publishes only what no executor takes up.
            platform.stack.kill("executor")
        platform.stack.start(process, {"OPENBELL_CRASH_AT": point})
        platform.stack.wait_ready(process)
        if process == "stream":
            threading.Thread(target=follow, args=[client], daemon=True).start()
        before = len(keys)

        def killed() -> bool:
            if len(keys) - before < KEYS_MAX and platform.stack.is_running(process):
                keys.append(f"{point}-{len(keys)}")
                # At the api's own points the answer never comes; the retry below, with the same key, tells the truth.
                with contextlib.suppress(OpenbellError):
                    client.buy("AAPL", Market(1), idempotency_key=keys[-1])
            return process in platform.stack.watch()

        return wait_until(killed, 60)

    # Where the broker had the abandoned order, a comparison with it ends the doubt, and another is abandoned.
    assert wait_until(reached, 300), "the point was never reached"
    for name in {process, "executor"}:
        if not platform.stack.is_running(name):
            platform.stack.start(name, {})
            platform.stack.wait_ready(name)
    accepted.extend(client.buy("AAPL", Market(1), idempotency_key=key) for key in keys)


def abandon_an_action(client: Client, platform: LocalPlatform, accepted: list[Action]) -> bool:
    """Kill the executor over an action past its door; whether one is left there, with nobody to record its outcome."""
    if not platform.stack.is_running("executor"):
        platform.stack.start("executor", {})
        platform.stack.wait_ready("executor")
    before = len(accepted)

    def states() -> list[str]:
        return [client.intent(action.intent_id).status for action in accepted[before:][-5:]]

    def dispatching() -> bool:
        if len(accepted) - before < KEYS_MAX:
            accepted.append(client.buy("AAPL", Market(1)))
        return "DISPATCHING" in states()

    assert wait_until(dispatching, 180)
    platform.stack.kill("executor")
    # What was answered just before is recorded: that one is not in doubt, and another is tried.
    return not wait_until(lambda: "DISPATCHING" not in states(), 0.5)


def follow(client: Client) -> None:
    """Until it is cut: what happened before may be told, and kill the stream, while this still connects."""
    with contextlib.suppress(OpenbellError):
        for _ in client.events():
            pass
