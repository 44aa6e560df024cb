"""OpenAPI rows of webhooks."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

import msgspec

from openbell_server.application.webhooks.ports.posting import DeliveryFailure
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.events.webhooks import WebhookStatus
from openbell_server.transport.rest.events.webhook_bodies import (
    AttemptBody,
    AttemptPageBody,
    LaneBody,
    LaneCountsBody,
    LanePageBody,
    LanesSetBody,
    NewWebhookBody,
    ReplayBody,
    WebhookBody,
    WebhookChangeBody,
    WebhookListBody,
    WebhookTestBody,
)
from openbell_server.transport.rest.openapi.operation import (
    ETAG,
    IF_MATCH,
    LIMIT,
    NEXT_CURSOR,
    Described,
    Parameter,
    header,
    location,
)

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_ACCOUNT: Final = UUID("01981d3c-7a00-7000-8000-000000000002")
_WEBHOOK: Final = WebhookBody(
    id=UUID("01981d3c-7a00-7000-8000-000000000009"),
    organization_id=UUID("01981d3c-7a00-7000-8000-000000000001"),
    url="https://example.com/openbell",
    types=["BROKER_ORDER", "BROKER_TRADE"],
    status=WebhookStatus.ACTIVE,
    version=1,
    created_at=_NOON,
    updated_at=_NOON,
    principal_type="USER",
    principal_id="user_01H0000000000000000000",
)
_SHOWN: Final = msgspec.structs.replace(_WEBHOOK, lanes=LaneCountsBody(2, 0, 0, 0))
_SECRET: Final = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="  # noqa: S105 - an example
_WITH_SECRET: Final = msgspec.structs.replace(_WEBHOOK, secret=_SECRET)
_NOT_STORED: Final = header("The response contains a secret.", {"const": "no-store"})
_PARKED: Final = Parameter(
    name="parked",
    description="Only parked accounts, or only those that are not parked.",
    schema={"type": "boolean"},
    example=True,
)
_PATH: Final = "/v1/webhooks/{webhook_id}"
_OPEN: Final = ("environment_mismatch", "organization_disabled")

WEBHOOK_OPERATIONS: Final = (
    Described(
        method="POST",
        path="/v1/webhooks",
        operation_id="createWebhook",
        summary="Create a webhook",
        description="Only this response contains the signing secret. For each covered account, events from now on are "
        "sent; for an account opened later, all events. A webhook that an API key creates covers accounts of the key's "
        "environment.",
        operation=Operation.MANAGE_WEBHOOKS,
        status=201,
        body=NewWebhookBody,
        body_examples={
            "fills": {"url": "https://example.com/openbell", "types": ["BROKER_TRADE"]},
            "orders": {
                "url": "https://example.com/openbell",
                "types": ["BROKER_ORDER", "INTENT_ACTION"],
                "description": "order desk",
            },
        },
        answer_example=_WITH_SECRET,
        answer_headers={
            "ETag": ETAG,
            "Cache-Control": _NOT_STORED,
            "Location": location("The path of the webhook."),
        },
        codes=("organization_disabled", "cap_reached", "webhooks_not_configured"),
    ),
    Described(
        path="/v1/webhooks",
        operation_id="listWebhooks",
        summary="List the organization's webhooks",
        description="All webhooks, oldest first; an API key sees those of its own environment.",
        operation=Operation.READ_WEBHOOKS,
        answer_example=WebhookListBody([_SHOWN]),
    ),
    Described(
        path=_PATH,
        operation_id="showWebhook",
        summary="Read a webhook",
        description="The current state, with the number of covered accounts and how many are behind, failing or "
        "parked.",
        operation=Operation.READ_WEBHOOKS,
        answer_example=_SHOWN,
        answer_headers={"ETag": ETAG},
        codes=("environment_mismatch",),
    ),
    Described(
        method="PATCH",
        path=_PATH,
        operation_id="changeWebhook",
        summary="Change, pause or resume a webhook",
        description="Omitted fields stay as they are; account_ids null selects all accounts. A newly covered account "
        "begins with its next event. A PAUSED webhook later continues where it stopped. Status ACTIVE resumes a "
        "webhook that is PAUSED or GONE, and retries failing and parked lanes at once, also of one that is ACTIVE.",
        operation=Operation.MANAGE_WEBHOOKS,
        body=WebhookChangeBody,
        body_examples={
            "pause": {"status": "PAUSED"},
            "resume": {"status": "ACTIVE"},
            "move": {"url": "https://example.com/openbell/2"},
        },
        answer_example=_WEBHOOK,
        answer_headers={"ETag": ETAG},
        parameters=(IF_MATCH,),
        codes=_OPEN,
    ),
    Described(
        method="DELETE",
        path=_PATH,
        operation_id="deleteWebhook",
        summary="Remove a webhook permanently",
        description="No more events are sent, except for a delivery in progress.",
        operation=Operation.MANAGE_WEBHOOKS,
        status=204,
        parameters=(IF_MATCH,),
        codes=("environment_mismatch",),
    ),
    Described(
        method="POST",
        path=f"{_PATH}/rotate-secret",
        operation_id="rotateWebhookSecret",
        summary="Replace a webhook's secret",
        description="Only this response contains the new secret. The previous secret also signs for 24 hours.",
        operation=Operation.MANAGE_WEBHOOKS,
        answer_example=msgspec.structs.replace(_WITH_SECRET, version=2, previous_secret_until=_NOON),
        answer_headers={"ETag": ETAG, "Cache-Control": _NOT_STORED},
        parameters=(IF_MATCH,),
        codes=(*_OPEN, "webhooks_not_configured"),
    ),
    Described(
        method="POST",
        path=f"{_PATH}/test",
        operation_id="testWebhook",
        summary="Send a test message now",
        description="Sends one message of type webhook.test like an event, signed and within eight seconds, and "
        "returns the target's response. It is not an event and changes no lane; a paused webhook can be tested too. "
        "At most four tests of an organization run at once.",
        operation=Operation.MANAGE_WEBHOOKS,
        answer_example=WebhookTestBody(
            "test_01981d3c-7a00-7000-8000-00000000000a", False, 112, 500, DeliveryFailure.NOT_TAKEN, "it answered 500"
        ),
        codes=(*_OPEN, "webhooks_not_configured"),
    ),
    Described(
        path=f"{_PATH}/lanes",
        operation_id="listWebhookLanes",
        summary="Read the delivery progress of each account",
        description="One lane per covered account, in the order in which the accounts were opened: the last event "
        "delivered or skipped, the newest event, the result of the last attempt, and whether the lane is parked.",
        operation=Operation.READ_WEBHOOKS,
        answer_example=LanePageBody(
            [
                LaneBody(
                    _ACCOUNT, 41, 42, 17, 3, _NOON, failing_since=_NOON, last_status=500, last_error="it answered 500"
                )
            ],
            None,
            "AAAAAAAAACpTb3B1YmJsaWNfa2V",
        ),
        parameters=(_PARKED, NEXT_CURSOR, LIMIT),
        codes=("environment_mismatch",),
    ),
    Described(
        path=f"{_PATH}/attempts",
        operation_id="listWebhookAttempts",
        summary="List recent delivery attempts",
        description="The newest first, of the last three days: when, which event, the target's status or the error, "
        "how long it took, and when it is tried again.",
        operation=Operation.READ_WEBHOOKS,
        answer_example=AttemptPageBody(
            [
                AttemptBody(
                    account_id=_ACCOUNT,
                    account_seq=42,
                    message_id=f"{_ACCOUNT}.42",
                    attempted_at=_NOON,
                    delivered=False,
                    duration_millis=112,
                    status=500,
                    error=DeliveryFailure.NOT_TAKEN,
                    message="it answered 500",
                    next_attempt_at=_NOON,
                )
            ],
            None,
            "AAAAAAAAACpTb3B1YmJsaWNfa2V",
        ),
        parameters=(NEXT_CURSOR, LIMIT),
        codes=("environment_mismatch",),
    ),
    Described(
        method="POST",
        path=f"{_PATH}/replay",
        operation_id="replayWebhook",
        summary="Replay or skip events",
        description="Continues after this event number, on one account or on all; with a number above an account's "
        "newest event, it continues with the next event. Parked lanes continue too.",
        operation=Operation.MANAGE_WEBHOOKS,
        body=ReplayBody,
        body_examples={"one account": {"account_id": str(_ACCOUNT), "after_seq": 40}, "everything": {"after_seq": 0}},
        answer_example=LanesSetBody(1),
        codes=_OPEN,
    ),
)
