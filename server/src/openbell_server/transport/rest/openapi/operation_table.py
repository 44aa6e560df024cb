"""The table of operations; a test fails if a route has no row or a row has no route."""

from typing import Final

from openbell_server.transport.rest.health.process_health import HealthBody
from openbell_server.transport.rest.openapi.operation import Described
from openbell_server.transport.rest.openapi.operations.accounts import ACCOUNT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.agents import AGENT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.audit import AUDIT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.backtest import BACKTEST_OPERATIONS
from openbell_server.transport.rest.openapi.operations.balances import BALANCE_OPERATIONS
from openbell_server.transport.rest.openapi.operations.brokers import BROKER_OPERATIONS
from openbell_server.transport.rest.openapi.operations.calendars import CALENDAR_OPERATIONS
from openbell_server.transport.rest.openapi.operations.callers import (
    CALLER_OPERATIONS,
    KEY_OPERATIONS,
    QUEUE_OPERATIONS,
)
from openbell_server.transport.rest.openapi.operations.credentials import CREDENTIAL_OPERATIONS
from openbell_server.transport.rest.openapi.operations.desk_commands import DESK_OPERATIONS
from openbell_server.transport.rest.openapi.operations.effective import EFFECTIVE_OPERATIONS
from openbell_server.transport.rest.openapi.operations.events import EVENT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.fault_plans import FAULT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.halts import HALT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.heartbeats import HEARTBEAT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.intents import INTENT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.money import MONEY_OPERATIONS
from openbell_server.transport.rest.openapi.operations.orders import ORDER_OPERATIONS
from openbell_server.transport.rest.openapi.operations.receipts import RECEIPT_OPERATIONS
from openbell_server.transport.rest.openapi.operations.reference_prices import REFERENCE_OPERATIONS
from openbell_server.transport.rest.openapi.operations.rules import RULE_OPERATIONS
from openbell_server.transport.rest.openapi.operations.symbol_controls import CONTROL_OPERATIONS
from openbell_server.transport.rest.openapi.operations.webhooks import WEBHOOK_OPERATIONS

_HEALTH_OPERATIONS: Final = (
    Described(
        path="/healthz",
        operation_id="checkHealth",
        summary="Check that the service works",
        description="Responds 200 while this process runs and its database accepts writes.",
        operation=None,
        answer_example=HealthBody("ok"),
    ),
)

_BY_TAG: Final[dict[str, tuple[Described, ...]]] = {
    "Brokers": BROKER_OPERATIONS,
    "Calendars": CALENDAR_OPERATIONS,
    "Accounts": (*ACCOUNT_OPERATIONS, *FAULT_OPERATIONS),
    "Broker credentials": CREDENTIAL_OPERATIONS,
    "Intents": INTENT_OPERATIONS,
    "Orders": ORDER_OPERATIONS,
    "Desk commands": DESK_OPERATIONS,
    "Money": (*MONEY_OPERATIONS, *BALANCE_OPERATIONS),
    "Events": EVENT_OPERATIONS,
    "Receipts": RECEIPT_OPERATIONS,
    "Controls": (
        *EFFECTIVE_OPERATIONS,
        *CONTROL_OPERATIONS,
        *HALT_OPERATIONS,
        *HEARTBEAT_OPERATIONS,
        *BACKTEST_OPERATIONS,
        *RULE_OPERATIONS,
        *REFERENCE_OPERATIONS,
    ),
    "Webhooks": WEBHOOK_OPERATIONS,
    "API keys": (*KEY_OPERATIONS, *AGENT_OPERATIONS),
    "Audit log": AUDIT_OPERATIONS,
    "Organizations and users": CALLER_OPERATIONS,
    "Service": (*QUEUE_OPERATIONS, *_HEALTH_OPERATIONS),
}
OPERATIONS: Final = tuple(row for rows in _BY_TAG.values() for row in rows)
TAG_OF: Final = {row.operation_id: tag for tag, rows in _BY_TAG.items() for row in rows}
_TAKEN: Final = {(row.method, row.path): row.query_names for row in OPERATIONS}
# The routes of the description itself.
UNDESCRIBED: Final = frozenset({"/openapi.json", "/openapi/accounts.json", "/docs"})
TAGS: Final = {
    "Brokers": "The brokers that accounts can use, and their capabilities.",
    "Calendars": "When markets are open.",
    "Accounts": "The trading accounts of an organization. A change also applies to commands that are not sent yet.",
    "Broker credentials": "The credential of an account at its broker. Secrets can be written but never read.",
    "Intents": "Commands that you submit. Each is recorded as an action and sent to the broker once.",
    "Orders": "Current orders, executions and changes of positions.",
    "Desk commands": "Cancel many orders, or close a position, as one command that shows the outcome of each order.",
    "Money": "What an account has and holds, what that cost and is worth, and what its trades brought.",
    "Events": "Everything that happens on an account, numbered without gaps.",
    "Receipts": "Why a command was accepted or refused, rule by rule, and the hash chains that prove it.",
    "Controls": "Rules for an organization, an account, a symbol on an account or an API key. They are always "
    "enforced; CANCEL is never refused.",
    "Webhooks": "Account events sent to your URL: in order, signed, and retried until you accept them.",
    "API keys": "For the organization's admins. A change takes effect everywhere within a second.",
    "Audit log": "Who changed what in the organization, for its admins.",
    "Organizations and users": "Organizations and users of the identity provider.",
    "Service": "Whether the service works.",
}


def query_names(method: str, path: str) -> list[str] | None:
    """The query parameters of an operation; None if it is not in the table."""
    return _TAKEN.get((method, path))
