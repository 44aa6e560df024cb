"""The table of operations: a route without a row here fails a test, and so does a row without a route."""

from typing import Final

from openbell_server.transport.rest.health_bodies import HealthBody
from openbell_server.transport.rest.openapi.account_operations import ACCOUNT_OPERATIONS
from openbell_server.transport.rest.openapi.backtest_operations import BACKTEST_OPERATIONS
from openbell_server.transport.rest.openapi.broker_operations import BROKER_OPERATIONS
from openbell_server.transport.rest.openapi.calendar_operations import CALENDAR_OPERATIONS
from openbell_server.transport.rest.openapi.caller_operations import CALLER_OPERATIONS, KEY_OPERATIONS
from openbell_server.transport.rest.openapi.control_operations import CONTROL_OPERATIONS
from openbell_server.transport.rest.openapi.credential_operations import CREDENTIAL_OPERATIONS
from openbell_server.transport.rest.openapi.described import Described
from openbell_server.transport.rest.openapi.event_operations import EVENT_OPERATIONS
from openbell_server.transport.rest.openapi.fault_operations import FAULT_OPERATIONS
from openbell_server.transport.rest.openapi.halt_operations import HALT_OPERATIONS
from openbell_server.transport.rest.openapi.intent_operations import INTENT_OPERATIONS
from openbell_server.transport.rest.openapi.order_operations import ORDER_OPERATIONS
from openbell_server.transport.rest.openapi.receipt_operations import RECEIPT_OPERATIONS
from openbell_server.transport.rest.openapi.reference_operations import REFERENCE_OPERATIONS
from openbell_server.transport.rest.openapi.rule_operations import RULE_OPERATIONS
from openbell_server.transport.rest.openapi.webhook_operations import WEBHOOK_OPERATIONS

_SERVICE_OPERATIONS: Final = (
    Described(
        method="GET",
        path="/healthz",
        operation_id="checkHealth",
        tag="Service",
        summary="Check that the service can work",
        description="Answers 200 while this process runs and its database takes writes.",
        operation=None,
        answer=HealthBody,
        answer_example=HealthBody("ok"),
    ),
)

OPERATIONS: Final[tuple[Described, ...]] = (
    *BROKER_OPERATIONS,
    *CALENDAR_OPERATIONS,
    *ACCOUNT_OPERATIONS,
    *FAULT_OPERATIONS,
    *CREDENTIAL_OPERATIONS,
    *INTENT_OPERATIONS,
    *ORDER_OPERATIONS,
    *EVENT_OPERATIONS,
    *RECEIPT_OPERATIONS,
    *CONTROL_OPERATIONS,
    *HALT_OPERATIONS,
    *BACKTEST_OPERATIONS,
    *RULE_OPERATIONS,
    *REFERENCE_OPERATIONS,
    *WEBHOOK_OPERATIONS,
    *KEY_OPERATIONS,
    *CALLER_OPERATIONS,
    *_SERVICE_OPERATIONS,
)
_TAKEN: Final = {(row.method, row.path): row.query_names for row in OPERATIONS}
# The description itself is not described.
UNDESCRIBED: Final = frozenset({"/openapi.json", "/openapi/accounts.json", "/docs"})
TAGS: Final = {
    "Brokers": "Where accounts can be, and what each broker can do.",
    "Calendars": "When markets are open.",
    "Accounts": "Where an organization trades. A change acts at once, on commands that wait to be sent as well.",
    "Broker credentials": "What an account signs in with at its broker. Secrets go in and never come out.",
    "Intents": "What you ask for: commands are recorded as actions, and each is sent to the broker once.",
    "Orders": "What became of what you asked for: orders, executions and positions as they stand.",
    "Events": "What happens on an account, numbered without gaps.",
    "Receipts": "Why a command was accepted or refused, rule by rule, and chains of hashes that prove it.",
    "Controls": "Rules of an organization, an account, a symbol on it or an API key. A control that is on is on "
    "everywhere; CANCEL is never refused.",
    "Webhooks": "Events of accounts, sent to an address of yours: in order, signed, and again until you have them.",
    "API keys": "For the organization's admins. A change acts everywhere within a second.",
    "Organizations and users": "As the identity provider knows them.",
    "Service": "Whether the service works.",
}


def query_names(method: str, path: str) -> list[str] | None:
    """The query parameters that an operation takes; None for one that is not described."""
    return _TAKEN.get((method, path))
