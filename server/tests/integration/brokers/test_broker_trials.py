"""`openbell-server brokers try`: what it refuses, what it writes, and what it cancels."""

import asyncio
import json
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from typer.testing import CliRunner

from conformance.stage import hurried
from openbell_server.adapters.broker_trials.cutting_proxy import cutting_proxy
from openbell_server.adapters.broker_trials.sent_orders_file import SentOrdersFile
from openbell_server.application.broker_trials import measure
from openbell_server.application.broker_trials.subject import TrialStopped
from openbell_server.brokers.registry import BROKERS
from openbell_server.cli import app
from openbell_server.domain.access.credentials import Secrets
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.identifiers import AccountId, Symbol
from openbell_server.processes.brokers.trial import TrialPlan, run_trial
from openbell_torture.alpaca.wire import key_id_of
from openbell_torture.faults import plan_with
from openbell_torture.serving import serving
from support.brokers.torture_broker import TortureBroker

ACCOUNT = AccountId(uuid4())
SECRETS = Secrets({"key_id": key_id_of(ACCOUNT), "secret": "of a simulator"})
OPEN = {"NEW", "PARTIALLY_FILLED"}


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "LAG_SECONDS", 0.3)


@pytest.fixture
def broker() -> TortureBroker:
    made = TortureBroker()
    made.open_account(ACCOUNT, plan_with(1, {}))
    return made


def a_plan(address: str, folder: Path, price: str = "1.00") -> TrialPlan:
    return TrialPlan(
        definition=hurried(BROKERS["alpaca"]),
        address=address,
        secrets=SECRETS,
        symbol=Symbol("AAPL"),
        quantity=Decimal(1),
        price=Decimal(price),
        folder=folder,
        account_id=ACCOUNT,
    )


def open_orders(broker: TortureBroker) -> list[str]:
    orders = broker.engines[ACCOUNT].exchange.list_orders(ACCOUNT)
    return [str(order.number) for order in orders if order.is_working]


async def test_a_simulated_broker_is_measured_and_left_clean(broker: TortureBroker, tmp_path: Path) -> None:
    async with serving(broker) as address:
        measurements = await run_trial(a_plan(address, tmp_path))
    assert {each.name: each.measured for each in measurements if not each.agrees} == {}
    assert {"id of an order, sent again", "look-up", "order without an answer", "replace"} <= {
        each.name for each in measurements
    }
    assert open_orders(broker) == []
    with closing(SentOrdersFile(tmp_path / f"alpaca-{ACCOUNT}.jsonl")) as sent:
        assert sent.all() == {}


async def test_a_price_that_could_fill_is_refused_before_anything_is_sent(
    broker: TortureBroker, tmp_path: Path
) -> None:
    async with serving(broker) as address:
        with pytest.raises(TrialStopped, match="could fill"):
            await run_trial(a_plan(address, tmp_path, price="400.00"))
    assert broker.engines[ACCOUNT].exchange.list_orders(ACCOUNT) == []


async def test_a_broker_that_does_not_answer_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(TrialStopped, match="does not answer"):
        await run_trial(a_plan("http://127.0.0.1:9", tmp_path))


async def test_the_proxy_loses_the_answer_of_a_command_and_of_no_read(broker: TortureBroker) -> None:
    headers = {"apca-api-key-id": SECRETS["key_id"], "apca-api-secret-key": "x"}
    order = {"symbol": "AAPL", "qty": "1", "side": "buy", "type": "limit", "limit_price": "1", "time_in_force": "gtc"}
    async with (
        serving(broker) as address,
        cutting_proxy(address) as proxy,
        httpx.AsyncClient(base_url=proxy.address, headers=headers, trust_env=False, timeout=60) as client,
    ):
        proxy.cut_next()
        assert (await client.get("/v2/orders")).json() == []
        with pytest.raises(httpx.HTTPError):
            await client.post("/v2/orders", json=order)
        assert len((await client.get("/v2/orders")).json()) == 1
        assert (await client.post("/v2/orders", json=order)).status_code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "There is no broker nowhere"),
        (["paper"], "Add --address"),
        (["alpaca", "--symbol", "not a symbol"], "is no symbol of alpaca"),
        (["alpaca", "--quantity", "-1"], "--quantity must be a positive number"),
        (["alpaca", "--price", "NaN"], "--price must be a positive number"),
    ],
    ids=["broker", "address", "symbol", "quantity", "price"],
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBELL_TRY_KEY_ID", "PKX")
    monkeypatch.setenv("OPENBELL_TRY_SECRET", "x")
    result = CliRunner().invoke(app, ["brokers", "try", *arguments])
    assert isinstance(result.exception, OperatorError)
    assert message in str(result.exception)


async def test_the_command_writes_a_signed_row_that_names_a_simulator_as_one(
    broker: TortureBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENBELL_TRY_KEY_ID", SECRETS["key_id"])
    monkeypatch.setenv("OPENBELL_TRY_SECRET", "x")
    monkeypatch.chdir(tmp_path)
    async with serving(broker) as address:
        arguments = ["brokers", "try", "alpaca", "--address", address]
        result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == 0, result.output
    row = json.loads((tmp_path / "broker-trials.jsonl").read_text())
    assert (row["broker"], row["of"]) == ("alpaca", "simulator")
    assert CliRunner().invoke(app, ["brokers", "verify", "broker-trials.jsonl"]).exit_code == 0
    (tmp_path / "broker-trials.jsonl").write_text(json.dumps(row | {"of": "sandbox"}) + "\n")
    assert CliRunner().invoke(app, ["brokers", "verify", "broker-trials.jsonl"]).exit_code == 1


async def test_orders_of_a_killed_trial_are_cancelled_by_the_next(broker: TortureBroker, tmp_path: Path) -> None:
    async with serving(broker) as address:
        plan = a_plan(address, tmp_path)
        with closing(SentOrdersFile(tmp_path / f"alpaca-{ACCOUNT}.jsonl")) as sent:
            sent.add("killed", datetime.now(UTC))
        headers = {"apca-api-key-id": SECRETS["key_id"], "apca-api-secret-key": "x"}
        order = {"symbol": "AAPL", "qty": "1", "side": "buy", "type": "limit", "limit_price": "1"}
        async with httpx.AsyncClient(base_url=address, headers=headers, trust_env=False, timeout=60) as client:
            for name in ("killed", "of somebody else"):
                body = {**order, "time_in_force": "gtc", "client_order_id": name}
                assert (await client.post("/v2/orders", json=body)).status_code == 200
        await run_trial(plan)
    assert len(open_orders(broker)) == 1
