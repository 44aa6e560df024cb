"""Events as JSON objects."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any, Final
from uuid import UUID

import pytest
from google.protobuf import json_format

from openbell.wire import trading_pb2 as pb
from openbell_server.application.events.event_json import event_document, moment_text
from openbell_server.domain.events.account_events import AccountEvent, EventKind
from openbell_server.domain.identifiers import AccountId, IntentId
from openbell_server.transport.stream.event_messages import KINDS, encode_event

ACCOUNT: Final = AccountId(UUID(int=1))
INTENT: Final = IntentId(UUID(int=2))
NOON: Final = datetime(2026, 11, 2, 12, 0, 0, 120000, tzinfo=UTC)
REASON: Final = {"code": "NEEDS_ATTENTION", "broker_code": None, "broker_text": "look"}
# What is empty or unknown is in there too: it must be absent afterwards.
BODIES: Final[Mapping[EventKind, Mapping[str, object]]] = {
    EventKind.INTENT_ACTION: {
        "action_id": "a",
        "action_type": "CREATE",
        "status": "UNKNOWN",
        "reason": REASON,
        "client_reference_id": None,
        "unknown": {"since": "2026-11-02T13:00:00.5+01:00", "flagged_at": None, "writes": 2, "settles_by": "asking"},
    },
    EventKind.BROKER_ORDER: {
        "broker_order_ids": [],
        "client_order_id": "c",
        "client_reference_id": "mine",
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "LIMIT",
        "quantity": "10",
        "limit_price": "1.50",
        "stop_price": None,
        "time_in_force": "DAY",
        "status": "WORKING",
        "pending": "NONE",
        "certainty": "CONFIRMED",
        "filled_quantity": "0",
        "leaves_quantity": "10",
        "average_price": None,
        "reason": None,
        "notices": ["OVERFILL"],
    },
    EventKind.ACCOUNT_CHANGED: {
        "changed": [],
        "version": 3,
        "credential_status": "VERIFIED",
        "expires_at": "2026-11-02T12:00:00.123456+00:00",
        "reason": REASON,
    },
    EventKind.EXTERNAL_ORDER: {
        "broker_order_id": "b",
        "client_order_id": "",
        "symbol": "AAPL",
        "order_side": "SELL",
        "order_type": "MARKET",
        "quantity": None,
        "limit_price": None,
        "stop_price": None,
        "time_in_force": None,
        "status": "WORKING",
        "filled_quantity": "0",
        "average_price": None,
        "accepted_at": "2026-11-02T12:00:00+00:00",
    },
    EventKind.POSITION_ADJUSTED: {
        "symbol": "AAPL",
        "before": "0",
        "after": "-2.5",
        "cause": "OPENING",
        "average_price": "187.45",
    },
    EventKind.BROKER_TRADE: {
        "execution_id": "e",
        "broker_order_ids": ["b"],
        "client_order_id": "c",
        "symbol": "AAPL",
        "order_side": "BUY",
        "kind": "NORMAL",
        "quantity": "1",
        "price": "2",
        "executed_at": "2026-11-02T12:00:00+00:00",
        "cumulative_quantity": "1",
        "leaves_quantity": "0",
        "position": "-1",
        "fee": "-0.01",
    },
    EventKind.CONTROL_CHANGED: {
        "scope": "SYMBOL",
        "subject": "AAPL",
        "code": "MAX_ORDER_QUANTITY",
        "change": "CREATED",
        "version": 1,
        "status": "",
        "reason": "because",
        "principal_type": "USER",
        "principal_id": "u",
    },
    EventKind.BALANCES_CHANGED: {
        "currency": "USD",
        "cash": "-12.50",
        "equity": None,
        "buying_power": "0",
        "initial_margin": None,
        "maintenance_margin": None,
        "as_of": "2026-11-02T12:00:00+00:00",
    },
    EventKind.LOSS_LIMIT_EXCEEDED: {
        "code": "LOSS_MAX",
        "scope": "ACCOUNT",
        "mode": "HARD",
        "control_version": 3,
        "currency": "USD",
        "limit": "1000",
        "loss": "1000.50",
        "measured_from": "OPENING",
        "on_breach": "REDUCE_ONLY",
        "day": "2026-11-02",
        "as_of": "2026-11-02T12:00:00+00:00",
    },
    EventKind.INTENT_REFUSED: {
        "receipt_id": "r",
        "codes": ["QTY_MAX"],
        "action_type": "CREATE",
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "LIMIT",
        "quantity": "10",
        "limit_price": "1.50",
        "time_in_force": "DAY",
    },
}
OF_INTENTS: Final = {EventKind.INTENT_ACTION, EventKind.BROKER_ORDER, EventKind.BROKER_TRADE}
# Protobuf writes these as strings.
LONG_NUMBERS: Final = {"account_seq", "version", "control_version"}


def an_event(kind: EventKind) -> AccountEvent:
    of_intent = kind in OF_INTENTS
    return AccountEvent(
        account_id=ACCOUNT,
        number=7,
        kind=kind,
        intent_id=INTENT if of_intent else None,
        seq=1 if of_intent else None,
        body=json.dumps(BODIES[kind]),
        occurred_at=NOON,
    )


def as_protobuf_spells(document: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: as_protobuf_spells(value) if isinstance(value, dict) else str(value) if name in LONG_NUMBERS else value
        for name, value in document.items()
        if name != "type"
    }


@pytest.mark.parametrize("kind", sorted(KINDS.values()))
def test_a_document_has_the_words_of_the_message(kind: EventKind) -> None:
    message = pb.TradingEvent.FromString(encode_event(an_event(kind)))
    told = json_format.MessageToDict(message, preserving_proto_field_name=True)
    assert as_protobuf_spells(event_document(an_event(kind))) == told


@pytest.mark.parametrize("kind", EventKind)
def test_a_document_reads_as_the_message_and_loses_nothing(kind: EventKind) -> None:
    document = event_document(an_event(kind))
    assert document["type"] == kind.name
    parsed = json_format.ParseDict({name: document[name] for name in document if name != "type"}, pb.TradingEvent())
    assert json_format.MessageToDict(parsed, preserving_proto_field_name=True) == as_protobuf_spells(document)


def test_what_is_unknown_or_empty_is_absent_and_zero_is_there() -> None:
    told = event_document(an_event(EventKind.BROKER_ORDER))["broker_order"]
    assert isinstance(told, dict)
    assert {"stop_price", "average_price", "reason", "broker_order_ids"}.isdisjoint(told)
    assert told["filled_quantity"] == "0"


@pytest.mark.parametrize(("micros", "text"), [(0, ""), (120_000, ".120"), (120_001, ".120001")])
def test_a_time_is_told_in_utc_with_the_digits_it_needs(micros: int, text: str) -> None:
    moment = datetime(2026, 11, 2, 14, 0, 0, micros, tzinfo=timezone(timedelta(hours=2)))
    assert moment_text(moment) == f"2026-11-02T12:00:00{text}Z"
