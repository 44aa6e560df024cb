"""What left for a broker is read from its bytes, and every write that nothing allows is found."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from uuid import UUID

import msgspec
import pytest

from openbell import Action
from openbell_server.application.ports.broker import BrokerCapabilities
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.demo.ledgers import Books
from openbell_server.domain.identifiers import ActionId, client_order_id
from openbell_server.domain.orders.broker_guarantees import IdClass
from openbell_server.domain.orders.intents import ActionType
from support.brokers.broker_writes import Write, excess_writes
from support.brokers.recording_proxy import Requests
from support.builders.ledger_books import ACCOUNT, create, shown

ACCOUNT_ID = str(ACCOUNT)
ORDER_ID = client_order_id(ActionId(UUID(int=1)))
REPLACE_ID = client_order_id(ActionId(UUID(int=2)))
ENFORCED = replace(BROKERS["paper"].capabilities, id_classes=dict.fromkeys(ActionType, IdClass.ENFORCED))
ECHOED = replace(ENFORCED, id_classes=dict.fromkeys(ActionType, IdClass.ECHOED), repeats_cancels=False)
WITHOUT_IDS = replace(ECHOED, id_classes={})
ACTIONS = [
    create("intent", 1),
    msgspec.structs.replace(create("intent", 2), seq=2, action_type="REPLACE", quantity=Decimal(12)),
    msgspec.structs.replace(create("intent", 3), seq=3, action_type="CANCEL"),
]
CREATE = Write(ActionType.CREATE, ACCOUNT_ID, None, {"client_order_id": ORDER_ID})
REPLACE = Write(ActionType.REPLACE, ACCOUNT_ID, ORDER_ID, {"client_order_id": REPLACE_ID})
CANCEL = Write(ActionType.CANCEL, ACCOUNT_ID, ORDER_ID)


def excess(
    writes: Sequence[Write], able: BrokerCapabilities, actions: Sequence[Action] = ACTIONS, *, resends: int = 0
) -> list[str]:
    recorded = {action.id: resends for action in actions}
    return list(excess_writes(writes, books(actions), recorded, {ACCOUNT_ID: able}))


def books(actions: Sequence[Action]) -> Books:
    """The broker's name for the order is P1."""
    latest = {action.intent_id: shown(action, "NEW", broker_order_ids=("P1",)) for action in actions}
    return Books(accepted=frozenset(), actions=actions, intents=latest, orders=[], repeated_submits=0)


@pytest.mark.parametrize("able", [ENFORCED, ECHOED])
def test_every_command_may_be_written_once(able: BrokerCapabilities) -> None:
    assert excess([CREATE, REPLACE, CANCEL], able) == []


@pytest.mark.parametrize("write", [CREATE, REPLACE, CANCEL])
def test_no_command_may_be_written_twice_where_its_id_is_only_echoed(write: Write) -> None:
    assert len(excess([write] * 2, ECHOED, resends=1)) == 1


@pytest.mark.parametrize("write", [CREATE, REPLACE, CANCEL])
def test_no_command_may_be_written_twice_that_was_not_recorded_as_a_repeat(write: Write) -> None:
    assert len(excess([write] * 2, ENFORCED)) == 1
    assert excess([write] * 2, ENFORCED, resends=1) == []


@pytest.mark.parametrize("write", [CREATE, REPLACE])
def test_a_command_whose_id_is_enforced_may_be_written_three_times(write: Write) -> None:
    assert excess([write] * 3, ENFORCED, resends=2) == []
    assert len(excess([write] * 4, ENFORCED, resends=3)) == 1


def test_a_cancel_may_be_repeated_where_that_does_nothing_new() -> None:
    assert excess([CANCEL] * 9, ENFORCED, resends=8) == []


@pytest.mark.parametrize("write", [CREATE, REPLACE, CANCEL])
def test_a_command_that_nobody_asked_for_may_not_be_written_at_all(write: Write) -> None:
    assert len(excess([write], ENFORCED, actions=[])) == 1


@pytest.mark.parametrize("state", ["QUEUED", "SKIPPED"])
def test_a_command_that_passed_no_door_may_not_be_written_at_all(state: str) -> None:
    assert len(excess([CREATE], ENFORCED, [create("intent", 1, state)])) == 1


def test_a_write_of_another_account_is_not_allowed_by_an_action_of_this_one() -> None:
    stray = replace(CREATE, account_id="another")
    assert len(list(excess_writes([stray], books(ACTIONS), {}, {ACCOUNT_ID: ENFORCED, "another": ENFORCED}))) == 1


def test_commands_without_ids_are_told_apart_by_what_they_ask_for() -> None:
    body = {"symbol": "AAPL", "side": "BUY", "quantity": "10.0"}
    write = Write(ActionType.CREATE, ACCOUNT_ID, None, body)
    assert excess([write], WITHOUT_IDS) == []
    assert len(excess([write] * 2, WITHOUT_IDS)) == 1
    assert excess([write] * 2, WITHOUT_IDS, [create("intent", 1), create("another", 4)]) == []


def test_orders_without_ids_are_changed_by_the_names_of_their_broker() -> None:
    change = Write(ActionType.REPLACE, ACCOUNT_ID, "P1", {"quantity": "12"})
    cancel = Write(ActionType.CANCEL, ACCOUNT_ID, "P1")
    assert excess([change, cancel], WITHOUT_IDS) == []
    assert len(excess([change, cancel] * 2, WITHOUT_IDS)) == 2
    assert len(excess([replace(cancel, order="P2")], WITHOUT_IDS)) == 1


def test_a_torn_write_is_no_command() -> None:
    assert excess([CREATE, replace(CREATE, body={}, whole=False)], ECHOED) == []


def request(method: str, path: str, body: bytes = b"") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nhost: broker\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


ORDERS = f"/accounts/{ACCOUNT_ID}/orders"
STREAM = (
    request("POST", ORDERS, b'{"client_order_id":"one"}')
    + request("GET", f"{ORDERS}/one")
    + request("PATCH", f"{ORDERS}/one", b'{"client_order_id":"two"}')
    + request("POST", f"/accounts/{ACCOUNT_ID}/session")
    + request("DELETE", f"{ORDERS}/one?valid_until=now")
    + request("DELETE", f"/paper-c/accounts/{ACCOUNT_ID}/broker-orders/P%201?valid_until=now")
)


@pytest.mark.parametrize("piece", [1, 7, len(STREAM)])
def test_commands_are_read_however_their_bytes_are_cut(piece: int) -> None:
    writes: list[Write] = []
    requests = Requests(writes.append)
    for start in range(0, len(STREAM), piece):
        requests.feed(STREAM[start : start + piece])
    requests.close()
    assert writes == [
        Write(ActionType.CREATE, ACCOUNT_ID, None, {"client_order_id": "one"}),
        Write(ActionType.REPLACE, ACCOUNT_ID, "one", {"client_order_id": "two"}),
        Write(ActionType.CANCEL, ACCOUNT_ID, "one"),
        Write(ActionType.CANCEL, ACCOUNT_ID, "P 1"),
    ]


def test_a_command_that_breaks_off_is_torn() -> None:
    writes: list[Write] = []
    requests = Requests(writes.append)
    requests.feed(request("POST", ORDERS, b'{"client_order_id":"one"}')[:-3])
    requests.close()
    assert writes == [Write(ActionType.CREATE, ACCOUNT_ID, None, {}, whole=False)]
