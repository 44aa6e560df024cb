"""Response bodies are copied from records by the names of their fields."""

import ast
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from msgspec import UNSET, Struct, UnsetType

from openbell_server.application.access.find_organization import Organization
from openbell_server.application.controls.ports.rules import ChainHeads, RuleChange, StoredReceipt
from openbell_server.application.desk.ports import DeskOrder
from openbell_server.application.intents.ports import ListedExecution, ListedOrder, PositionChange
from openbell_server.application.intents.read_overview import AccountOverview
from openbell_server.application.money.read_positions import ValuedPosition
from openbell_server.application.money.read_profit import ProfitRow
from openbell_server.application.ports.broker import BrokerCapabilities, CredentialField
from openbell_server.application.webhooks.deliver_webhooks import Tried
from openbell_server.domain.access.accounts import AccountRecord
from openbell_server.domain.access.api_keys import ApiKey, ApiKeyRecord
from openbell_server.domain.access.credentials import Credential
from openbell_server.domain.controls.backtest import RuleTally, Tally
from openbell_server.domain.controls.facts import ReferencePrice
from openbell_server.domain.controls.findings import Finding
from openbell_server.domain.controls.halts import Halt, HaltFigures, InFlight, OpenOrder, Quietness, Switch
from openbell_server.domain.controls.heartbeats import Heartbeat, HeartbeatTerms
from openbell_server.domain.controls.kind import ControlKind
from openbell_server.domain.controls.rules import Address, Rule, RuleTerms, StoredRule
from openbell_server.domain.controls.symbol_controls import Recorded, TimeControl
from openbell_server.domain.events.outbox_health import OutboxCount, QueueStanding
from openbell_server.domain.events.webhooks import DeliveryAttempt, DeliveryQueue, DeliveryQueueCounts, Webhook
from openbell_server.domain.orders.action_lifecycle import Reason
from openbell_server.domain.orders.desk_commands import DeskCommand, DeskScope
from openbell_server.domain.orders.external_orders import ExternalOrder
from openbell_server.domain.orders.intents import IntentAction
from openbell_server.transport import rest
from openbell_server.transport.rest.wire_types import body_from
from support.source_trees import parsed

# The records that each body is copied from.
RECORDS: dict[str, type | tuple[type, ...]] = {
    "AccountBody": AccountRecord,
    "AccountOverviewBody": AccountOverview,
    "ApiKeyBody": ApiKeyRecord,
    "AttemptBody": DeliveryAttempt,
    "BacktestBody": Tally,
    "BacktestFindingBody": Finding,
    "BrokerBody": BrokerCapabilities,
    "BrokerCredentialFieldBody": CredentialField,
    "ChainHeadsBody": ChainHeads,
    "ChainedActionBody": IntentAction,
    "ControlKindBody": ControlKind,
    "CredentialBody": Credential,
    "EffectiveRuleBody": Rule,
    "ExecutionRowBody": ListedExecution,
    "ExternalOrderBody": ExternalOrder,
    "HaltReportBody": (Halt, Switch, HaltFigures),
    "HaltedAccountBody": Quietness,
    "HeartbeatBody": (Heartbeat, HeartbeatTerms, Address),
    "InFlightBody": InFlight,
    "DeskCommandBody": (DeskCommand, DeskScope),
    "DeskOrderBody": DeskOrder,
    "LaneBody": DeliveryQueue,
    "LaneCountsBody": DeliveryQueueCounts,
    "ManualControlBody": Recorded,
    "OpenOrderBody": OpenOrder,
    "OrderBody": ListedOrder,
    "OrganizationBody": Organization,
    "OutboxBody": QueueStanding,
    "PositionBody": ValuedPosition,
    "PositionChangeBody": PositionChange,
    "ProfitBody": ProfitRow,
    "ReasonBody": Reason,
    "OutboxHealthEntry": OutboxCount,
    "PriceBody": ReferencePrice,
    "PlacedBody": Address,
    "RuleBody": (StoredRule, Address),
    "RuleChangeBody": (RuleChange, Address),
    "RuleTallyBody": RuleTally,
    "StoredReceiptBody": StoredReceipt,
    "SwitchBody": (StoredRule, Address),
    "TermsBody": RuleTerms,
    "TimeControlBody": TimeControl,
    "ValidKeyBody": ApiKey,
    "WebhookBody": Webhook,
    "WebhookTestBody": Tried,
}


class Shown(Struct, frozen=True):
    name: str
    price: str
    maybe: str | None
    reason: str | UnsetType = UNSET
    limit: str | UnsetType = UNSET


@dataclass
class Stored:
    name: str = "a"
    price: Decimal = Decimal("1E+2")
    maybe: str | None = None
    reason: str | None = None
    limit: Decimal | None = None


def test_a_body_has_the_fields_of_its_record_and_the_others() -> None:
    body = body_from(Shown, Stored(), name="b")
    assert body == Shown("b", "100", None)
    assert msgspec.json.encode(body) == b'{"name":"b","price":"100","maybe":null}'


def test_others_are_written_like_fields_of_the_record() -> None:
    assert body_from(Shown, Stored(), limit=Decimal("0.50"), reason=None) == Shown("a", "100", None, limit="0.50")
    assert body_from(Shown, Stored(reason="r", maybe="m")) == Shown("a", "100", "m", "r")


def test_what_the_first_record_has_not_is_copied_from_the_next() -> None:
    assert body_from(Shown, Stored(), SimpleNamespace(name="b"), maybe="m").name == "a"
    assert body_from(Shown, SimpleNamespace(name="b"), Stored()) == Shown("b", "100", None)
    with pytest.raises(AttributeError):
        body_from(Shown, SimpleNamespace(name="b"), SimpleNamespace(price="1"))


def test_a_record_without_a_field_is_an_error() -> None:
    with pytest.raises(AttributeError):
        body_from(Shown, object(), name="b")


def copies() -> list[tuple[str, str, tuple[str, ...]]]:
    """Every call of body_from: the module, the body, and the names that are not copied."""
    found = []
    for path in sorted(Path(rest.__path__[0]).rglob("*.py")):
        for call in ast.walk(parsed(path.read_text())):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "body_from":
                kind = call.args[0]
                assert isinstance(kind, ast.Name)
                others = tuple(str(each.arg) for each in call.keywords)
                found.append((str(path.relative_to(rest.__path__[0])), kind.id, others))
    return found


@pytest.mark.parametrize(("module", "body", "others"), copies())
def test_the_record_has_every_field_that_is_copied(module: str, body: str, others: tuple[str, ...]) -> None:
    name = "openbell_server.transport.rest." + module.removesuffix(".py").replace("/", ".")
    kind = getattr(__import__(name, fromlist=[body]), body)
    found = RECORDS[body]
    known = {
        name
        for record in (found if isinstance(found, tuple) else (found,))
        for name in (*dir(record), *(each for base in record.__mro__ for each in getattr(base, "__annotations__", {})))
    }
    copied = set(kind.__struct_fields__) - set(others)
    assert set(others) <= set(kind.__struct_fields__)
    assert copied <= known
    assert copied
