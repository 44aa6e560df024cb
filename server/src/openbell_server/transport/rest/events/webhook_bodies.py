"""Request and response bodies of the webhook routes."""

from typing import Annotated, Any, Final, Literal
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.paging import Page
from openbell_server.application.webhooks.deliver_webhooks import Tried
from openbell_server.application.webhooks.ports.posting import DeliveryFailure
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.events.webhook_targets import URL_LENGTH_MAX, URL_PATTERN
from openbell_server.domain.events.webhooks import (
    ACCOUNTS_MAX,
    DeliveryAttempt,
    DeliveryQueue,
    DeliveryQueueCounts,
    NewWebhook,
    Webhook,
    WebhookChange,
    WebhookSecret,
    WebhookStatus,
)
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.wire_types import Moment, PageOf, ReasonText, body_from

_KINDS: Final = {kind.name: kind for kind in EventKind}
# The JSON schema describes these formats; the domain checks them.
UrlText = Annotated[
    str,
    Meta(
        description="https://host[:port][/path] in ASCII, without a user, a password or a fragment",
        examples=["https://example.com/openbell"],
        extra_json_schema={"maxLength": URL_LENGTH_MAX, "pattern": URL_PATTERN, "format": "webhook-url"},
    ),
]
Types = Annotated[
    list[Annotated[str, Meta(extra_json_schema={"enum": list(_KINDS)})]],
    Meta(description="event types to send", extra_json_schema={"minItems": 1}),
]
AccountIds = Annotated[
    list[UUID],
    Meta(
        max_length=ACCOUNTS_MAX,
        description="accounts of your organization; absent for all, including accounts opened later",
        extra_json_schema={"minItems": 1},
    ),
]
Sequence = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class NewWebhookBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to create a webhook."""

    url: UrlText
    types: Types
    description: ReasonText | None = None
    account_ids: AccountIds | None = None

    def to_new(self, environment: Environment | None) -> NewWebhook:
        return NewWebhook(
            url=self.url,
            description=self.description,
            kinds=_kinds(self.types),
            account_ids=_accounts(self.account_ids),
            environment=environment,
        )


class WebhookChangeBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to change a webhook. Omitted fields stay as they are; account_ids null selects all accounts."""

    url: UrlText | UnsetType = UNSET
    description: ReasonText | UnsetType = UNSET
    types: Types | UnsetType = UNSET
    account_ids: AccountIds | UnsetType | None = UNSET
    # GONE is absent: only the target's response sets it.
    status: Literal["ACTIVE", "PAUSED"] | UnsetType = UNSET

    def to_change(self) -> WebhookChange:
        sent: dict[str, Any] = {
            name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET
        }
        if not sent:
            raise InvalidCommand("", f"must have one or more of {', '.join(self.__struct_fields__)}")
        if "types" in sent:
            sent["kinds"] = _kinds(sent.pop("types"))
        if "account_ids" in sent:
            sent["every_account"] = sent["account_ids"] is None
            sent["account_ids"] = _accounts(sent["account_ids"])
        if "status" in sent:
            sent["status"] = WebhookStatus(sent["status"])
        return WebhookChange(**sent)


class ReplayBody(Struct, forbid_unknown_fields=True, frozen=True):
    """Continue after this event number, on the lane of one account or on all."""

    after_seq: Sequence
    account_id: UUID | None = None

    def to_wanted(self) -> tuple[AccountId | None, int]:
        return None if self.account_id is None else AccountId(self.account_id), self.after_seq


class LaneCountsBody(Struct, frozen=True):
    """How many accounts the webhook covers, and how many of them are behind, failing or parked."""

    accounts: int
    behind: int
    failing: int
    parked: int


class WebhookBody(Struct, frozen=True):
    """A webhook; the secret is present only when it is new."""

    id: UUID
    organization_id: UUID
    url: str
    types: list[str]
    status: WebhookStatus
    version: int
    created_at: Moment
    updated_at: Moment
    principal_type: str
    principal_id: str
    description: str | UnsetType = UNSET
    account_ids: list[UUID] | UnsetType = UNSET
    environment: Environment | UnsetType = UNSET
    previous_secret_until: Moment | UnsetType = UNSET
    lanes: LaneCountsBody | UnsetType = UNSET
    secret: str | UnsetType = UNSET


class WebhookListBody(PageOf[WebhookBody], frozen=True):
    """All webhooks of the organization."""


class LaneBody(Struct, frozen=True):
    """How far the event log of one account has been delivered."""

    account_id: UUID
    position: int
    newest_seq: int
    delivered: int
    failures: int
    next_attempt_at: Moment
    failing_since: Moment | UnsetType = UNSET
    parked_at: Moment | UnsetType = UNSET
    last_status: int | UnsetType = UNSET
    last_error: str | UnsetType = UNSET


class LanePageBody(PageOf[LaneBody], frozen=True):
    """A page of lanes."""


class LanesSetBody(Struct, frozen=True):
    """The number of lanes changed."""

    lanes: int


class AttemptBody(Struct, frozen=True):
    """A delivery that was tried: the target's response and its duration, or why there was no response."""

    account_id: UUID
    account_seq: int
    message_id: str
    attempted_at: Moment
    delivered: bool
    duration_millis: int
    status: int | UnsetType = UNSET
    error: DeliveryFailure | UnsetType = UNSET
    message: str | UnsetType = UNSET
    # Absent if it was delivered, or nothing is sent until you resume the webhook.
    next_attempt_at: Moment | UnsetType = UNSET


class AttemptPageBody(PageOf[AttemptBody], frozen=True):
    """A page of attempts, newest first."""


class WebhookTestBody(Struct, frozen=True):
    """The target's response to a test message and its duration, or why there was no response."""

    message_id: str
    delivered: bool
    duration_millis: int
    status: int | UnsetType = UNSET
    error: DeliveryFailure | UnsetType = UNSET
    message: str | UnsetType = UNSET


def webhook_body(
    webhook: Webhook, counts: DeliveryQueueCounts | None = None, secret: WebhookSecret | None = None
) -> WebhookBody:
    principal_type, principal_id = webhook.principal
    return body_from(
        WebhookBody,
        webhook,
        types=[kind.name for kind in sorted(webhook.kinds)],
        principal_type=principal_type,
        principal_id=principal_id,
        account_ids=None if webhook.account_ids is None else sorted(webhook.account_ids),
        lanes=None if counts is None else body_from(LaneCountsBody, counts),
        secret=secret.text if secret else None,
    )


def webhook_test_body(tried: Tried) -> WebhookTestBody:
    return body_from(WebhookTestBody, tried, delivered=tried.trouble is None, error=tried.trouble)


def lane_page_body(page: Page[DeliveryQueue]) -> LanePageBody:
    data = [body_from(LaneBody, lane, newest_seq=lane.newest) for lane in page.rows]
    return LanePageBody(data, page.next_cursor, page.last_cursor)


def attempt_page_body(page: Page[DeliveryAttempt]) -> AttemptPageBody:
    data = [body_from(AttemptBody, each, delivered=each.error is None) for each in page.rows]
    return AttemptPageBody(data, page.next_cursor, page.last_cursor)


def _kinds(types: list[str]) -> frozenset[EventKind]:
    for place, name in enumerate(types):
        if name not in _KINDS:
            raise InvalidCommand(f"/types/{place}", f"must be one of {', '.join(_KINDS)}")
    return frozenset(_KINDS[name] for name in types)


def _accounts(account_ids: list[UUID] | None) -> frozenset[AccountId] | None:
    return None if account_ids is None else frozenset(map(AccountId, account_ids))
