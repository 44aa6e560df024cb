"""What the pages and the examples have a reader do, done beside one `dev`, as a reader would.

README's own blocks run in test_front_door.py.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from openbell import Client, Limit, Market
from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import ACME
from openbell_server.devtools.local_postgres import find_postgres
from support.environment.doc_blocks import EXECUTED, ROOT, blocks, pages, program
from support.environment.front_door import START_SECONDS, RunningDev, plain_environment, run, running_dev

SERVER = [sys.executable, "-m", "openbell_server"]
PAGE_SECONDS = 240
PROGRAM_SECONDS = 180
PAGES = [page for page in pages() if page != "README.md" and EXECUTED.intersection(block.tag for block in blocks(page))]
pytestmark = pytest.mark.timeout(START_SECONDS + PAGE_SECONDS + 30)


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDev]:
    with running_dev(tmp_path_factory.mktemp("dev"), [*SERVER, "dev"]) as running:
        yield running


@pytest.fixture(scope="module")
def token(dev: RunningDev) -> str:
    """An admin's, made as the greeting of `dev` says."""
    words = ["tokens", "mint", "--user", "you", "--organization", ACME, "--role", "admin"]
    return run([*SERVER, *words], dev.folder, 120).strip()


@pytest.fixture
def client(dev: RunningDev) -> Iterator[Client]:
    settings = dev.environment
    with Client(
        api_key=settings["OPENBELL_API_KEY"],
        url=settings["OPENBELL_URL"],
        stream_address=settings["OPENBELL_STREAM"],
    ) as opened:
        yield opened


@pytest.fixture
def an_account(dev: RunningDev, token: str) -> Iterator[Callable[[], str]]:
    """Opens accounts that nobody has traded on, as an admin: accounts of other pages may be halted."""
    with Client(access_token=token, url=dev.environment["OPENBELL_URL"]) as admin:
        yield lambda: admin.accounts.create("Of a test", broker="paper", environment="paper").id


@pytest.fixture
def account(an_account: Callable[[], str]) -> str:
    """On which no other page has traded."""
    return an_account()


@pytest.fixture
def checkout(dev: RunningDev, account: str, tmp_path: Path) -> Path:
    """What a reader's shell stands in: this checkout, and what `dev` wrote; files that a page makes are its own."""
    folder = tmp_path / "checkout"
    folder.mkdir()
    for entry in ROOT.iterdir():
        if entry.name not in {".git", ".openbell", "build"}:
            (folder / entry.name).symlink_to(entry)
    (folder / ".openbell").mkdir()
    for entry in (dev.folder / ".openbell").iterdir():
        (folder / ".openbell" / entry.name).symlink_to(entry)
    # A page that reads this file trades on its own account too.
    own = (dev.folder / ".openbell/dev.env").read_text().replace(dev.environment["OPENBELL_ACCOUNT"], account)
    (folder / ".openbell/dev.env").unlink()
    (folder / ".openbell/dev.env").write_text(own)
    # What is refused fails, though no page says so to curl.
    (tmp_path / ".curlrc").write_text("fail-with-body\n")
    return folder


@pytest.fixture
def reader(dev: RunningDev, token: str, account: str, checkout: Path) -> dict[str, str]:
    """What a reader's shell knows."""
    path = [str(ROOT / ".venv/bin"), str(find_postgres()), os.environ["PATH"]]
    own = {
        "PATH": os.pathsep.join(path),
        "HOME": str(checkout.parent),
        "TOKEN": token,
        "OPENBELL_ACCOUNT": account,
        "APCA_API_KEY_ID": account,
    }
    return plain_environment() | dev.environment | own


@contextlib.contextmanager
def started(
    command: list[str], folder: Path, environment: dict[str, str], output: Path
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has all it starts in a group of its own, and leaves none of it behind."""
    with output.open("ab") as sink:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.parametrize("page", PAGES)
def test_what_a_page_has_its_reader_do_works(page: str, reader: dict[str, str], checkout: Path) -> None:
    script, output = checkout.with_name("page.bash"), checkout.with_name("page.out")
    script.write_text(program(page, blocks(page)))
    with started(["bash", str(script)], checkout, reader, output) as process:
        ended = wait_until(lambda: process.poll() is not None, PAGE_SECONDS)
        assert ended, f"{page} takes longer than {PAGE_SECONDS} s\n{output.read_text()[-3000:]}"
        assert process.returncode == 0, output.read_text()[-3000:]


class Example:
    """One program of examples/, with what it printed so far in all its runs."""

    def __init__(self, name: str, checkout: Path, environment: dict[str, str]) -> None:
        # Ctrl-C is heard, also where the tests run in the background, whose children would be deaf to it.
        self._command = ["env", "--default-signal=INT", sys.executable, str(ROOT / "examples" / name)]
        self._folder = checkout
        self._environment = environment
        self._output = checkout.with_name(f"{name}.out")

    def runs(self, *words: str) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        """Until it ends, or the block does: then by SIGKILL, wherever it is."""
        return started([*self._command, *words], self._folder, self._environment, self._output)

    @property
    def printed(self) -> str:
        return self._output.read_text()

    def until(self, condition: Callable[[], bool]) -> None:
        # Slower than the platform's limits.
        deadline = time.monotonic() + PROGRAM_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.printed
            time.sleep(0.1)

    def until_prints(self, words: str) -> None:
        self.until(lambda: words in self.printed)


def held(client: Client, account_id: str) -> dict[str, Decimal]:
    return {each.symbol: each.quantity for each in client.positions(account_id=account_id).data if each.quantity}


def test_the_bot_that_is_killed_ends_exactly_where_it_should(
    client: Client, reader: dict[str, str], checkout: Path
) -> None:
    account, bot = reader["OPENBELL_ACCOUNT"], Example("bot.py", checkout, reader)
    client.wait(client.buy("MSFT", Market(50), account_id=account).intent_id, account_id=account)
    client.set_fault_plan({"slow_ms": 1000}, seed=1, account_id=account)
    with bot.runs("AAPL=30", "MSFT=30"):
        bot.until(lambda: len(list(client.orders(account_id=account))) > 1)
    with bot.runs("AAPL=30", "MSFT=30") as process:
        bot.until(lambda: process.poll() is not None)
    assert bot.printed.endswith("holds what it should\n")
    assert held(client, account) == {"AAPL": Decimal(30), "MSFT": Decimal(30)}
    traded = {"AAPL": Decimal(0), "MSFT": Decimal(0)}
    for execution in client.executions(account_id=account):
        traded[execution.symbol] += execution.quantity
    assert traded == {"AAPL": Decimal(30), "MSFT": Decimal(50 + 20)}, "more was traded than was missing"


def test_the_copy_trader_that_is_killed_copies_every_fill_once(
    client: Client, reader: dict[str, str], checkout: Path, an_account: Callable[[], str]
) -> None:
    leader, follower, state = an_account(), an_account(), checkout / "copied.token"
    trader = Example("copy_trader.py", checkout, reader)
    words = [leader, follower, "--ratio", "0.5", "--state", str(state)]
    with trader.runs(*words):
        trader.until(state.exists)
        began = state.read_text()
        client.wait(client.buy("AAPL", Market(10), account_id=leader).intent_id, account_id=leader)
        trader.until(lambda: state.read_text() != began)
    # As if it had been killed before it could keep its place; and the leader does not wait for it.
    state.write_text(began)
    client.wait(client.sell("AAPL", Market(4), account_id=leader).intent_id, account_id=leader)
    with trader.runs(*words):
        trader.until(lambda: held(client, follower) == {"AAPL": Decimal(3)})
    assert held(client, leader) == {"AAPL": Decimal(6)}
    assert sorted(execution.quantity for execution in client.executions(account_id=follower)) == [2, 5]


def test_the_risk_watcher_halts_the_busy_account_and_no_other(
    client: Client, reader: dict[str, str], checkout: Path, an_account: Callable[[], str]
) -> None:
    calm, busy, watcher = an_account(), an_account(), Example("risk_watcher.py", checkout, reader)
    with watcher.runs("--trades", "3", "--seconds", "60"):
        watcher.until_prints("watching")
        client.buy("AAPL", Limit(1, price="1.00"), account_id=busy)
        client.buy("AAPL", Market(1), account_id=calm)
        for quantity in (1, 2, 3, 4):
            client.buy("AAPL", Market(quantity), account_id=busy)
        watcher.until_prints(f"{busy} halted; nothing works at its broker: True")
    assert (client.switch(account_id=busy).status, client.switch(account_id=calm).status) == ("HALTED", "ACTIVE")
    assert not list(client.orders(status="WORKING", account_id=busy))
    assert calm not in watcher.printed


def test_the_webhook_receiver_takes_each_event_once_and_removes_its_webhook(
    client: Client, reader: dict[str, str], checkout: Path
) -> None:
    account, receiver = reader["OPENBELL_ACCOUNT"], Example("webhook_receiver.py", checkout, reader)
    before = [webhook.id for webhook in client.webhooks.list()]
    settings = (checkout / ".openbell/server.env").read_text()
    allowed = re.search(r'PRIVATE_TARGETS=.*"127\.0\.0\.1:(\d+)"', settings)
    assert allowed, "dev allows one receiver on this machine"
    with receiver.runs("--port", allowed[1]) as process:
        receiver.until_prints("listening at")
        client.wait(client.buy("AAPL", Market(10), account_id=account).intent_id, account_id=account)
        told = {
            event.event_id for event in client.event_history(account_id=account, types=["BROKER_ORDER", "BROKER_TRADE"])
        }

        def taken() -> list[str]:
            lines = [line for line in receiver.printed.splitlines() if line.startswith("BROKER_")]
            events = [json.loads(line.split(" ", 2)[2]) for line in lines]
            return [event["event_id"] for event in events if event["account_id"] == account]

        receiver.until(lambda: told <= set(taken()))
        process.send_signal(signal.SIGINT)
        assert process.wait(PROGRAM_SECONDS) == 0
    assert len(taken()) == len(set(taken()))
    assert [webhook.id for webhook in client.webhooks.list()] == before


def test_the_agent_is_stopped_at_each_limit_and_its_key_is_revoked(reader: dict[str, str], checkout: Path) -> None:
    agent = Example("agent.py", checkout, reader | {"OPENBELL_ACCESS_TOKEN": reader["TOKEN"]})
    with agent.runs() as process:
        agent.until(lambda: process.poll() is not None)
        assert process.returncode == 0, agent.printed
    printed = agent.printed
    assert "One order is worth at most 1000 USD" in printed
    for code in ("NOTIONAL_MAX", "RESTRICTED", "SIDE_NOT_ALLOWED", "DAY_NOTIONAL_MAX", "permission_denied"):
        assert code in printed
    assert (printed.count("  accepted: "), printed.count("  refused: ")) == (2, 6)
    assert "Of 1200 USD a day, 1000 were accepted, 200 are left." in printed
