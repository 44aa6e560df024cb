"""Client library and command line for Openbell."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from openbell import webhooks as webhooks
    from openbell.access.accounts import Account as Account
    from openbell.access.accounts import Credential as Credential
    from openbell.access.api_keys import ApiKey as ApiKey
    from openbell.access.api_keys import ValidKey as ValidKey
    from openbell.access.api_keys import WorstCase as WorstCase
    from openbell.access.audit import AuditEntry as AuditEntry
    from openbell.access.operations import Me as Me
    from openbell.access.operations import Organization as Organization
    from openbell.access.operations import Outbox as Outbox
    from openbell.access.operations import Outboxes as Outboxes
    from openbell.access.webhooks import LaneCounts as LaneCounts
    from openbell.access.webhooks import Webhook as Webhook
    from openbell.access.webhooks import WebhookAttempt as WebhookAttempt
    from openbell.access.webhooks import WebhookLane as WebhookLane
    from openbell.access.webhooks import WebhookTest as WebhookTest
    from openbell.async_client import AsyncClient as AsyncClient
    from openbell.client import Client as Client
    from openbell.controls.backtests import Backtest as Backtest
    from openbell.controls.backtests import BacktestExample as BacktestExample
    from openbell.controls.backtests import RuleTally as RuleTally
    from openbell.controls.calendars import Calendar as Calendar
    from openbell.controls.calendars import MarketSession as MarketSession
    from openbell.controls.calendars import MarketSessions as MarketSessions
    from openbell.controls.effective import ControlKind as ControlKind
    from openbell.controls.effective import EffectiveControls as EffectiveControls
    from openbell.controls.effective import EffectiveRule as EffectiveRule
    from openbell.controls.halts import HaltCancels as HaltCancels
    from openbell.controls.halts import HaltedAccount as HaltedAccount
    from openbell.controls.halts import HaltedOrder as HaltedOrder
    from openbell.controls.halts import HaltReport as HaltReport
    from openbell.controls.halts import InFlightCommand as InFlightCommand
    from openbell.controls.heartbeats import AsyncHeartbeats as AsyncHeartbeats
    from openbell.controls.heartbeats import Heartbeat as Heartbeat
    from openbell.controls.heartbeats import Heartbeats as Heartbeats
    from openbell.controls.heartbeats import Unhealthy as Unhealthy
    from openbell.controls.references import ExchangeRate as ExchangeRate
    from openbell.controls.references import GivenPrice as GivenPrice
    from openbell.controls.references import GivenRate as GivenRate
    from openbell.controls.references import ReferencePrice as ReferencePrice
    from openbell.controls.references import References as References
    from openbell.controls.rules import Rule as Rule
    from openbell.controls.rules import RuleChange as RuleChange
    from openbell.controls.rules import RuleTerms as RuleTerms
    from openbell.controls.rules import Switch as Switch
    from openbell.errors import ApiError as ApiError
    from openbell.errors import Conflict as Conflict
    from openbell.errors import EventMissed as EventMissed
    from openbell.errors import FieldProblem as FieldProblem
    from openbell.errors import Invalid as Invalid
    from openbell.errors import NotAuthenticated as NotAuthenticated
    from openbell.errors import NotConfigured as NotConfigured
    from openbell.errors import NotFinal as NotFinal
    from openbell.errors import NotFound as NotFound
    from openbell.errors import OpenbellError as OpenbellError
    from openbell.errors import OutcomeUnknown as OutcomeUnknown
    from openbell.errors import PermissionDenied as PermissionDenied
    from openbell.errors import RateLimited as RateLimited
    from openbell.errors import Unavailable as Unavailable
    from openbell.errors import UnexpectedReply as UnexpectedReply
    from openbell.errors import Unreachable as Unreachable
    from openbell.events.mirror import AsyncMirror as AsyncMirror
    from openbell.events.mirror import Book as Book
    from openbell.events.mirror import Mirror as Mirror
    from openbell.events.records import AccountChanged as AccountChanged
    from openbell.events.records import BalancesChanged as BalancesChanged
    from openbell.events.records import BrokerOrder as BrokerOrder
    from openbell.events.records import BrokerPosition as BrokerPosition
    from openbell.events.records import BrokerTrade as BrokerTrade
    from openbell.events.records import ControlChanged as ControlChanged
    from openbell.events.records import Event as Event
    from openbell.events.records import ExternalOrder as ExternalOrder
    from openbell.events.records import IntentAction as IntentAction
    from openbell.events.records import IntentRefused as IntentRefused
    from openbell.events.records import PositionAdjusted as PositionAdjusted
    from openbell.events.records import Primed as Primed
    from openbell.intents.desk_commands import DeskCommand as DeskCommand
    from openbell.intents.desk_commands import DeskOrder as DeskOrder
    from openbell.intents.order_lists import AccountOverview as AccountOverview
    from openbell.intents.order_lists import Balances as Balances
    from openbell.intents.order_lists import CancelResult as CancelResult
    from openbell.intents.order_lists import EventPage as EventPage
    from openbell.intents.order_lists import Order as Order
    from openbell.intents.order_lists import OrderPage as OrderPage
    from openbell.intents.order_lists import Position as Position
    from openbell.intents.order_lists import PositionChange as PositionChange
    from openbell.intents.order_lists import Positions as Positions
    from openbell.intents.order_lists import RecordedExecution as RecordedExecution
    from openbell.intents.orders import Limit as Limit
    from openbell.intents.orders import Market as Market
    from openbell.intents.orders import Stop as Stop
    from openbell.intents.orders import StopLimit as StopLimit
    from openbell.models import Action as Action
    from openbell.models import Broker as Broker
    from openbell.models import BrokerCommand as BrokerCommand
    from openbell.models import BrokerFeed as BrokerFeed
    from openbell.models import CredentialField as CredentialField
    from openbell.models import CredentialForm as CredentialForm
    from openbell.models import Execution as Execution
    from openbell.models import FaultPlan as FaultPlan
    from openbell.models import Latency as Latency
    from openbell.models import Page as Page
    from openbell.models import Probe as Probe
    from openbell.models import Reason as Reason
    from openbell.models import Statistics as Statistics
    from openbell.models import SymbolControl as SymbolControl
    from openbell.models import SymbolCount as SymbolCount
    from openbell.models import SymbolTime as SymbolTime
    from openbell.models import Unknown as Unknown
    from openbell.models import Window as Window
    from openbell.receipts.records import ChainedAction as ChainedAction
    from openbell.receipts.records import ChainHeads as ChainHeads
    from openbell.receipts.records import Evaluation as Evaluation
    from openbell.receipts.records import Finding as Finding
    from openbell.receipts.records import Receipt as Receipt
    from openbell.webhooks import InvalidSignature as InvalidSignature

# The module of each public name. httpx and msgspec are slow to import, so a module is imported on first use.
_NAMES: Final = {
    "access.accounts": "Account Credential",
    "access.api_keys": "ApiKey ValidKey WorstCase",
    "access.audit": "AuditEntry",
    "access.operations": "Me Organization Outbox Outboxes",
    "access.webhooks": "LaneCounts Webhook WebhookAttempt WebhookLane WebhookTest",
    "async_client": "AsyncClient",
    "client": "Client",
    "controls.backtests": "Backtest BacktestExample RuleTally",
    "controls.calendars": "Calendar MarketSession MarketSessions",
    "controls.effective": "ControlKind EffectiveControls EffectiveRule",
    "controls.halts": "HaltCancels HaltReport HaltedAccount HaltedOrder InFlightCommand",
    "controls.heartbeats": "AsyncHeartbeats Heartbeat Heartbeats Unhealthy",
    "controls.references": "ExchangeRate GivenPrice GivenRate ReferencePrice References",
    "controls.rules": "Rule RuleChange RuleTerms Switch",
    "errors": (
        "ApiError Conflict EventMissed FieldProblem Invalid NotAuthenticated NotConfigured NotFinal NotFound "
        "OpenbellError OutcomeUnknown PermissionDenied RateLimited Unavailable UnexpectedReply Unreachable"
    ),
    "events.mirror": "AsyncMirror Book Mirror",
    "events.records": (
        "AccountChanged BalancesChanged BrokerOrder BrokerPosition BrokerTrade ControlChanged Event ExternalOrder "
        "IntentAction IntentRefused PositionAdjusted Primed"
    ),
    "intents.desk_commands": "DeskCommand DeskOrder",
    "intents.order_lists": (
        "AccountOverview Balances CancelResult EventPage Order OrderPage Position PositionChange Positions "
        "RecordedExecution"
    ),
    "intents.orders": "Limit Market Stop StopLimit",
    "models": (
        "Action Broker BrokerCommand BrokerFeed CredentialField CredentialForm Execution FaultPlan Latency "
        "Page Probe Reason Statistics SymbolControl SymbolCount SymbolTime Unknown Window"
    ),
    "receipts.records": "ChainHeads ChainedAction Evaluation Finding Receipt",
    "webhooks": "InvalidSignature",
}
_MODULES: Final = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_MODULES, "webhooks"])

if not TYPE_CHECKING:  # a type checker that sees this function accepts every name

    def __getattr__(name: str) -> object:
        if name == "webhooks":
            return import_module("openbell.webhooks")
        if name not in _MODULES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"openbell.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
