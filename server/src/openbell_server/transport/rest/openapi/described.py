"""What a row of the table of operations says, and the pieces that many rows share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from openbell_server.application.paging import LIMIT_DEFAULT, LIMIT_MAX
from openbell_server.domain.authorization import RULES, Operation, Rule
from openbell_server.domain.controls_catalogue import SETTABLE
from openbell_server.domain.intent_statistics import TimeWindow
from openbell_server.domain.intents import ActionType
from openbell_server.domain.market_calendars import CALENDARS
from openbell_server.transport.rest.intent_queries import REFERENCE_LENGTH_MAX

Json = dict[str, object]
SYMBOL_PATTERN: Final = "^[A-Za-z0-9.\\-/:_]{1,32}$"


class Scheme(StrEnum):
    """How a caller may show who it is."""

    API_KEY = "apiKey"
    BEARER = "bearer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A parameter of a query or a header."""

    name: str
    place: str
    description: str
    schema: Json
    example: object
    required: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """One operation: what the code of its route cannot say."""

    method: str
    path: str
    operation_id: str
    tag: str
    summary: str
    description: str
    # The rule that admits callers; none where nobody is asked who they are.
    operation: Operation | None
    status: int = 200
    body: type | None = None
    body_examples: Mapping[str, object] = field(default_factory=dict)
    answer: type | None = None
    answer_example: object = None
    answer_headers: Mapping[str, Json] = field(default_factory=dict)
    # An example of the stream that it answers instead, to who accepts text/event-stream.
    answer_stream: str | None = None
    parameters: tuple[Parameter, ...] = ()
    # Codes of its own; those that come with a credential, a path or a body are added.
    codes: tuple[str, ...] = ()

    @property
    def rule(self) -> Rule | None:
        """Who may."""
        return None if self.operation is None else RULES[self.operation]

    @property
    def schemes(self) -> list[Scheme]:
        """How those who may show who they are."""
        if self.rule is None:
            return []
        by_key, by_token = self.rule.permissions is not None, (self.rule.roles, self.rule.scopes) != (None, None)
        return [*([Scheme.API_KEY] if by_key else []), *([Scheme.BEARER] if by_token else [])]

    @property
    def callers(self) -> str:
        """Who may, in a sentence."""
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
        """Every query parameter it takes; others are refused."""
        return [parameter.name for parameter in self.parameters if parameter.place == "query"]


def _kind(who: str, what: str, asked: frozenset[str] | None) -> str:
    if asked is None:
        return ""
    return f"{who} with {what} {' or '.join(sorted(asked))}" if asked else who


NEXT_CURSOR: Final = Parameter(
    name="next_cursor",
    place="query",
    description="Where to go on: next_cursor or last_cursor of an earlier page of the same list, as it was given.",
    schema={"type": "string", "pattern": "^[A-Za-z0-9_-]{27}$"},
    example="AAAAAAAAACpTb3B1YmJsaWNfa2V",
)
LIMIT: Final = Parameter(
    name="limit",
    place="query",
    description="How many rows a page has at most.",
    schema={"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
    example=LIMIT_DEFAULT,
)
FILTERS: Final = (
    Parameter(
        name="symbol",
        place="query",
        description="Only actions of this symbol, in any spelling that its broker takes.",
        schema={"type": "string", "pattern": SYMBOL_PATTERN},
        example="AAPL",
    ),
    Parameter(
        name="action_type",
        place="query",
        description="Only commands of this type.",
        schema={"type": "string", "enum": list(ActionType)},
        example="CREATE",
    ),
    Parameter(
        name="client_reference_id",
        place="query",
        description="Only actions that you gave this reference.",
        schema={"type": "string", "minLength": 1, "maxLength": REFERENCE_LENGTH_MAX, "format": "printable"},
        example="rebalance-0042",
    ),
    Parameter(
        name="created_after",
        place="query",
        description="Only actions recorded after this time; the + of an offset is written %2B.",
        schema={"type": "string", "format": "date-time"},
        example="2026-01-05T09:30:00Z",
    ),
    Parameter(
        name="created_before",
        place="query",
        description="Only actions recorded before this time; the + of an offset is written %2B.",
        schema={"type": "string", "format": "date-time"},
        example="2036-01-05T16:00:00Z",
    ),
)
TIME_WINDOW: Final = Parameter(
    name="time_window",
    place="query",
    description="Which actions are counted: those recorded since then.",
    schema={"type": "string", "enum": list(TimeWindow), "default": TimeWindow.LAST_DAY},
    example="last_day",
)
IDEMPOTENCY_KEY: Final = Parameter(
    name="Idempotency-Key",
    place="header",
    description="Yours, new for every command and the same for every retry of it: a retried request never trades "
    "twice. Keys do not expire.",
    schema={"type": "string", "pattern": "^[!-~]{1,255}$"},
    example="7f9c0f3e-rebalance-0042",
)
IF_MATCH: Final = Parameter(
    name="If-Match",
    place="header",
    description="The ETag of the answer you read: if it was changed since, nothing is changed and 412 answers.",
    schema={"type": "string", "pattern": '^(\\*|"[0-9]{1,9}")$'},
    example='"1"',
)
ETAG: Final[Json] = {
    "description": "The version of what is shown, for If-Match.",
    "required": True,
    "schema": {"type": "string", "pattern": '^"[0-9]+"$'},
}
ORGANIZATION: Final = Parameter(
    name="x-organization-id",
    place="header",
    description="The organization a service account acts for; it must be sent by one. Others may leave it out, or "
    "send their own.",
    schema={"type": "string", "format": "uuid"},
    example="01981d3c-7a00-7000-8000-000000000001",
)
# Path parameters by name: description, schema, example.
PATH_PARAMETERS: Final[dict[str, tuple[str, Json, str]]] = {
    "account_id": (
        "The trading account; one of another organization answers like one that does not exist.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000002",
    ),
    "intent_id": (
        "The intent, as the submit answered it.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000003",
    ),
    "receipt_id": (
        "The receipt, as the submit or its refusal answered it.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000005",
    ),
    "symbol": (
        "The symbol in any case; a slash in it is written %2F.",
        {"type": "string", "pattern": SYMBOL_PATTERN},
        "AAPL",
    ),
    "calendar": ("A calendar, as their list names it.", {"type": "string", "enum": list(CALENDARS)}, "XNYS"),
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
        "The webhook, as its creation answered it.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000009",
    ),
    "api_key_id": (
        "The key, as its creation answered it.",
        {"type": "string", "format": "uuid"},
        "01981d3c-7a00-7000-8000-000000000007",
    ),
}
