"""The type of a row in the table of operations, and the parameters that many rows share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from openbell_server.application.paging import LIMIT_DEFAULT, LIMIT_MAX, ListOrder
from openbell_server.domain.access.authorization import RULES, Operation, Rule
from openbell_server.domain.controls.catalogue import SETTABLE
from openbell_server.domain.markets.calendars import CALENDARS
from openbell_server.domain.orders.intent_statistics import TimeWindow
from openbell_server.domain.orders.intents import ActionType
from openbell_server.transport.rest.query_parameters import REFERENCE_LENGTH_MAX

Json = dict[str, object]
SYMBOL_PATTERN: Final = "^[A-Za-z0-9.\\-/:_]{1,32}$"


class Scheme(StrEnum):
    """How a caller authenticates."""

    API_KEY = "apiKey"
    BEARER = "bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    name: str
    place: str = "query"
    description: str
    schema: Json
    example: object
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One operation: the documentation that its route's code does not contain."""

    method: str = "GET"
    path: str
    operation_id: str
    summary: str
    description: str
    # The authorization rule; None if no credential is needed.
    operation: Operation | None
    status: int = 200
    body: type | None = None
    body_examples: Mapping[str, object] = field(default_factory=dict)
    # Its type is the schema of the answer; None if the answer has no body.
    answer_example: object = None
    answer_headers: Mapping[str, Json] = field(default_factory=dict)
    # An example of the stream that callers get with Accept: text/event-stream.
    answer_stream: str | None = None
    parameters: tuple[Parameter, ...] = ()
    # Codes of this operation only; document.py adds those of credentials, paths, shared parameters and bodies.
    codes: tuple[str, ...] = ()

    @property
    def answer(self) -> type | None:
        return None if self.answer_example is None else type(self.answer_example)

    @property
    def rule(self) -> Rule | None:
        return None if self.operation is None else RULES[self.operation]

    @property
    def schemes(self) -> list[Scheme]:
        if self.rule is None:
            return []
        by_key, by_token = self.rule.permissions is not None, (self.rule.roles, self.rule.scopes) != (None, None)
        return [*([Scheme.API_KEY] if by_key else []), *([Scheme.BEARER] if by_token else [])]

    @property
    def callers(self) -> str:
        """Who may call the operation, as a sentence."""
        if self.rule is None:
            return "Anyone may call this, without a credential."
        rule = self.rule
        kinds = [
            _kind("API keys", "the permission", rule.permissions),
            _kind("users", "the role", rule.roles) + (" in an organization of the operator's own" * rule.internal),
            _kind("service accounts", "the scope", rule.scopes),
        ]
        needs = f" The organization needs the entitlement {rule.entitlement}." if rule.entitlement else ""
        return f"For {'; '.join(kind for kind in kinds if kind)}.{needs}"

    @property
    def query_names(self) -> list[str]:
        """All query parameters of the operation; others are refused."""
        return [parameter.name for parameter in self.parameters if parameter.place == "query"]


def _kind(who: str, what: str, needed: frozenset[str] | None) -> str:
    if needed is None:
        return ""
    return f"{who} with {what} {' or '.join(sorted(needed))}" if needed else who


def header(description: str, schema: Json) -> Json:
    """A header that the answer always has."""
    return {"description": description, "required": True, "schema": schema}


def location(description: str) -> Json:
    return header(description, {"type": "string", "format": "uri-reference"})


def moment(name: str, description: str, example: str) -> Parameter:
    return Parameter(
        name=name,
        description=f"{description}; write the + of an offset as %2B.",
        schema={"type": "string", "format": "date-time"},
        example=example,
    )


NEXT_CURSOR: Final = Parameter(
    name="next_cursor",
    description="Where to continue: next_cursor or last_cursor of an earlier page of the same list, unchanged.",
    schema={"type": "string", "pattern": "^[A-Za-z0-9_-]{27,38}$"},
    example="AAAAAAAAACpTb3B1YmJsaWNfa2V",
)
LIMIT: Final = Parameter(
    name="limit",
    description="Maximum number of rows per page.",
    schema={"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    example=LIMIT_DEFAULT,
)
ORDER: Final = Parameter(
    name="order",
    description="asc: the oldest first. desc: the newest first.",
    schema={"type": "string", "enum": list(ListOrder), "default": ListOrder.OLDEST_FIRST},
    example="desc",
)
ACCOUNT_FILTER: Final = Parameter(
    name="account_id",
    description="Only this account. Without it: every account of the organization.",
    schema={"type": "string", "format": "uuid"},
    example="01981d3c-7a00-7000-8000-000000000002",
)
OF_INTENT: Final = Parameter(
    name="intent_id",
    description="Only of this intent.",
    schema={"type": "string", "format": "uuid"},
    example="01981d3c-7a00-7000-8000-000000000003",
)
FILTERS: Final = (
    Parameter(
        name="symbol",
        description="Only actions of this symbol, in any spelling that its broker accepts.",
        schema={"type": "string", "pattern": SYMBOL_PATTERN},
        example="AAPL",
    ),
    Parameter(
        name="action_type",
        description="Only commands of this type.",
        schema={"type": "string", "enum": list(ActionType)},
        example="CREATE",
    ),
    Parameter(
        name="client_reference_id",
        description="Only actions with this reference of yours.",
        schema={"type": "string", "minLength": 1, "maxLength": REFERENCE_LENGTH_MAX, "format": "printable"},
        example="rebalance-0042",
    ),
    moment("since", "Only actions recorded at this time or later", "2026-01-05T09:30:00Z"),
    moment("until", "Only actions recorded before this time", "2036-01-05T16:00:00Z"),
    ORDER,
)
TIME_WINDOW: Final = Parameter(
    name="time_window",
    description="Counts the actions recorded in this window.",
    schema={"type": "string", "enum": list(TimeWindow), "default": TimeWindow.LAST_DAY},
    example="last_day",
)
IDEMPOTENCY_KEY: Final = Parameter(
    name="Idempotency-Key",
    place="header",
    description="A key of yours: a new one for every command, the same one for every retry. A retried request never "
    "trades twice. Keys do not expire.",
    schema={"type": "string", "pattern": "^[!-~]{1,255}$"},
    example="7f9c0f3e-rebalance-0042",
)
IF_MATCH: Final = Parameter(
    name="If-Match",
    place="header",
    description="The ETag of the response that you read. If the resource has changed since, you get 412 and nothing is "
    "changed.",
    schema={"type": "string", "pattern": '^(\\*|"[0-9]{1,9}")$'},
    example='"1"',
)
ETAG: Final = header("The version of the resource, for If-Match.", {"type": "string", "pattern": '^"[0-9]+"$'})
ORGANIZATION: Final = Parameter(
    name="x-organization-id",
    place="header",
    description="The organization that a service account acts for; required for service accounts. Other callers may "
    "omit it or send their own.",
    schema={"type": "string", "format": "uuid"},
    example="01981d3c-7a00-7000-8000-000000000001",
)
# Path parameters by name: description, schema, example.
PATH_PARAMETERS: Final[dict[str, tuple[str, Json, str]]] = {
    "account_id": (
        "The trading account. An account of another organization is reported as not found.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000002",
    ),
    "intent_id": (
        "The intent_id of the submit response.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000003",
    ),
    "receipt_id": (
        "The receipt_id of the submit response, or the id of the receipt in its refusal.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000005",
    ),
    "symbol": (
        "The symbol in upper or lower case; write a slash as %2F.",
        {"type": "string", "pattern": SYMBOL_PATTERN},
        "AAPL",
    ),
    "calendar": ("The name of a calendar in the list.", {"type": "string", "enum": list(CALENDARS)}, "XNYS"),
    "code": (
        "The rule's code.",
        {"type": "string", "enum": [*SETTABLE]},
        "QTY_MAX",
    ),
    "provider": ("The name of the identity provider.", {"type": "string", "minLength": 1}, "workos"),
    "provider_id": (
        "The identity provider's id of the organization.",
        {"type": "string", "minLength": 1},
        "org_01H0000000000000000000",
    ),
    "webhook_id": (
        "The id of the webhook.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000009",
    ),
    "desk_command_id": (
        "The id of the desk command.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-00000000000a",
    ),
    "api_key_id": (
        "The id of the key.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000007",
    ),
}
