"""Client library and command line for Openbell."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from openbell.async_client import AsyncClient
    from openbell.backtests import Backtest, BacktestExample, RuleTally
    from openbell.client import Client
    from openbell.errors import (
        ApiError,
        Conflict,
        EventMissed,
        FieldProblem,
        Invalid,
        NotAuthenticated,
        NotConfigured,
        NotFinal,
        NotFound,
        OpenbellError,
        OutcomeUnknown,
        PermissionDenied,
        RateLimited,
        Unavailable,
        UnexpectedReply,
        Unreachable,
    )
    from openbell.models import (
        AccountChanged,
        Action,
        Broker,
        BrokerCommand,
        BrokerFeed,
        BrokerOrder,
        CredentialField,
        CredentialForm,
        Event,
        Execution,
        ExternalOrder,
        FaultPlan,
        IntentAction,
        Latency,
        Page,
        PositionAdjusted,
        Probe,
        Reason,
        Statistics,
        SymbolControl,
        SymbolCount,
        SymbolTime,
        Unknown,
        Window,
    )
    from openbell.orders import Limit, Market, Stop, StopLimit
    from openbell.rules import Rule, RuleAddress, RuleChange, RuleTerms, Switch

__all__ = [
    "AccountChanged",
    "Action",
    "ApiError",
    "AsyncClient",
    "Backtest",
    "BacktestExample",
    "Broker",
    "BrokerCommand",
    "BrokerFeed",
    "BrokerOrder",
    "Client",
    "Conflict",
    "CredentialField",
    "CredentialForm",
    "Event",
    "EventMissed",
    "Execution",
    "ExternalOrder",
    "FaultPlan",
    "FieldProblem",
    "IntentAction",
    "Invalid",
    "Latency",
    "Limit",
    "Market",
    "NotAuthenticated",
    "NotConfigured",
    "NotFinal",
    "NotFound",
    "OpenbellError",
    "OutcomeUnknown",
    "Page",
    "PermissionDenied",
    "PositionAdjusted",
    "Probe",
    "RateLimited",
    "Reason",
    "Rule",
    "RuleAddress",
    "RuleChange",
    "RuleTally",
    "RuleTerms",
    "Statistics",
    "Stop",
    "StopLimit",
    "Switch",
    "SymbolControl",
    "SymbolCount",
    "SymbolTime",
    "Unavailable",
    "UnexpectedReply",
    "Unknown",
    "Unreachable",
    "Window",
]

# Where each name lives that is not in errors: httpx and msgspec are slow, so they are imported on first use only.
_HOMES: Final = {
    "AsyncClient": "async_client",
    "Client": "client",
    "AccountChanged": "models",
    "Action": "models",
    "CredentialForm": "models",
    "CredentialField": "models",
    "BrokerFeed": "models",
    "BrokerCommand": "models",
    "Broker": "models",
    "BrokerOrder": "models",
    "Event": "models",
    "ExternalOrder": "models",
    "Execution": "models",
    "FaultPlan": "models",
    "IntentAction": "models",
    "Page": "models",
    "PositionAdjusted": "models",
    "Probe": "models",
    "Reason": "models",
    "Latency": "models",
    "Statistics": "models",
    "SymbolControl": "models",
    "SymbolCount": "models",
    "SymbolTime": "models",
    "Window": "models",
    "Unknown": "models",
    "Limit": "orders",
    "Market": "orders",
    "Stop": "orders",
    "StopLimit": "orders",
    "Rule": "rules",
    "RuleAddress": "rules",
    "RuleChange": "rules",
    "RuleTerms": "rules",
    "Backtest": "backtests",
    "BacktestExample": "backtests",
    "RuleTally": "backtests",
    "Switch": "rules",
}

if not TYPE_CHECKING:  # a type checker that saw this function would believe in every name

    def __getattr__(name: str) -> object:
        """The public names, on first use (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"openbell.{_HOMES.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    """What completion offers."""
    return sorted({*globals(), *__all__})
