"""OpenAPI rows of API keys, organizations, users and queues."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.events.outbox import OutboxStatus, Queue
from openbell_server.domain.events.outbox_health import QueueVerdict
from openbell_server.transport.rest.access.api_keys import (
    ApiKeyBody,
    ApiKeyChangeBody,
    ApiKeyPageBody,
    NewApiKeyBody,
    ValidateBody,
    ValidKeyBody,
)
from openbell_server.transport.rest.access.me import MeBody, OwnOrganizationBody
from openbell_server.transport.rest.access.organizations import OrganizationBody
from openbell_server.transport.rest.health.account_queue_health import OutboxHealthEntry, OutboxHealthResponse
from openbell_server.transport.rest.health.queue_health_bodies import OutboxBody, OutboxesBody
from openbell_server.transport.rest.openapi.operation import LIMIT, NEXT_CURSOR, Described, header, location

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_ORGANIZATION: Final = UUID("01981d3c-7a00-7000-8000-000000000001")
_KEY_TEXT: Final = "ob_paper_0_ab0cdefghij1_0123456789abcdefghijklmnopqrstuvwxyzABCDEFG_000000"
_KEY: Final = ApiKeyBody(
    id=UUID("01981d3c-7a00-7000-8000-000000000007"),
    organization_id=_ORGANIZATION,
    key_id="ab0cdefghij1",
    name="rebalancer",
    environment=Environment.PAPER,
    permissions=["intent:edit", "intent:read"],
    own_orders_only=False,
    disabled=False,
    created_at=_NOON,
)
AGENT_EXAMPLE: Final = {
    "account_ids": ["01981d3c-7a00-7000-8000-000000000002"],
    "symbols": ["AAPL", "MSFT"],
    "order_notional": "1000",
    "day_notional": "5000",
    "day_loss": "200",
    "currency": "USD",
    "orders_per_minute": 10,
}
_NOT_STORED: Final = header("The response concerns a secret.", {"const": "no-store"})

KEY_OPERATIONS: Final = (
    Described(
        method="POST",
        path="/v1/api-keys",
        operation_id="createApiKey",
        summary="Create a key",
        description="Only this response contains the text of the key. A key is for paper or for live accounts. With "
        "agent, the limits of its budget become rules of the key in the same transaction.",
        operation=Operation.MANAGE_KEYS,
        status=201,
        body=NewApiKeyBody,
        body_examples={
            "trading": {"name": "rebalancer", "environment": "paper", "permissions": ["intent:edit", "intent:read"]},
            "reading": {
                "name": "report",
                "environment": "live",
                "permissions": ["intent:read"],
                "expires_at": "2036-01-05T12:00:00Z",
            },
            "for an agent": {"name": "agent", "expires_at": "2036-01-05T12:00:00Z", "agent": AGENT_EXAMPLE},
        },
        answer_example=replace(_KEY, api_key=_KEY_TEXT),
        answer_headers={"Location": location("The path of the key."), "Cache-Control": _NOT_STORED},
        codes=("organization_disabled", "cap_reached", "entitlement_required"),
    ),
    Described(
        path="/v1/api-keys",
        operation_id="listApiKeys",
        summary="List the organization's keys",
        description="All keys, including revoked ones, in the order in which they were created.",
        operation=Operation.MANAGE_KEYS,
        answer_example=ApiKeyPageBody([_KEY], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(NEXT_CURSOR, LIMIT),
    ),
    Described(
        path="/v1/api-keys/{api_key_id}",
        operation_id="showApiKey",
        summary="Read a key",
        description="The current state of the key; its text is returned only once, when it is created.",
        operation=Operation.MANAGE_KEYS,
        answer_example=_KEY,
    ),
    Described(
        method="PATCH",
        path="/v1/api-keys/{api_key_id}",
        operation_id="changeApiKey",
        summary="Change a key",
        description="Omitted fields stay as they are. The change takes effect everywhere within a second.",
        operation=Operation.MANAGE_KEYS,
        body=ApiKeyChangeBody,
        body_examples={
            "disable": {"disabled": True},
            "rename": {"name": "rebalancer 2"},
            "limit to its own orders": {"own_orders_only": True},
        },
        answer_example=_KEY,
        codes=("key_revoked", "organization_disabled"),
    ),
    Described(
        method="DELETE",
        path="/v1/api-keys/{api_key_id}",
        operation_id="revokeApiKey",
        summary="Revoke a key permanently",
        description="Takes effect everywhere within a second. Queued commands of the key that were not sent yet are "
        "skipped; its cancels are still sent.",
        operation=Operation.MANAGE_KEYS,
        status=204,
    ),
    Described(
        method="POST",
        path="/api/v1/auth/api-key/validate",
        operation_id="validateApiKey",
        summary="Check whether a key is valid",
        description="A service account can check any key, a key only itself. An unknown, wrong, revoked or expired key "
        "always gets the same 401.",
        operation=Operation.VALIDATE_KEY,
        body=ValidateBody,
        body_examples={"key": {"api_key": _KEY_TEXT}},
        answer_example=ValidKeyBody(str(_KEY.id), str(_ORGANIZATION), Environment.PAPER, False, _NOON),
        answer_headers={"Cache-Control": _NOT_STORED},
    ),
)

CALLER_OPERATIONS: Final = (
    Described(
        path="/v1/me",
        operation_id="showMe",
        summary="Read who the credential belongs to",
        description="The owner of the credential, its organization, and the operations that it may use. An account of "
        "another environment, a missing entitlement or a change that loosens a limit may still be refused.",
        operation=Operation.READ_ME,
        answer_example=MeBody(
            principal_type=PrincipalKind.API_KEY,
            principal_id=str(_KEY.id),
            operations=[Operation.SUBMIT_INTENT.name, Operation.READ_INTENTS.name],
            permissions=["intent:edit", "intent:read"],
            own_orders_only=False,
            organization=OwnOrganizationBody(_ORGANIZATION, "Acme Trading", False, ["controls_premium"]),
            environment=Environment.PAPER,
        ),
    ),
    Described(
        path="/v1/organizations/by-provider/{provider}/{provider_id}",
        operation_id="findOrganization",
        summary="Find an organization by the identity provider's id",
        description="Service accounts find any organization, users those they belong to; any other is reported as not "
        "found.",
        operation=Operation.LOOK_UP_ORGANIZATION,
        answer_example=OrganizationBody(
            id=_ORGANIZATION,
            external_id="org_01H0000000000000000000",
            name="Acme Trading",
            provider="workos",
            disabled=False,
            created_at=_NOON,
        ),
        codes=("identity_provider_unavailable",),
    ),
    Described(
        method="DELETE",
        path="/v1/users/me",
        operation_id="deleteMe",
        summary="Delete yourself",
        description="Deletes the user permanently at the identity provider. If the provider does not respond, the "
        "request stays recorded and is finished later. Errors are plain text.",
        operation=Operation.DELETE_ME,
        status=204,
        codes=("identity_provider_missing", "identity_provider_unavailable"),
    ),
)

QUEUE_OPERATIONS: Final = (
    Described(
        path="/v1/accounts/outbox/health",
        operation_id="showOutboxHealth",
        summary="Read the state of the accounts' queue",
        description="Counts by status and event type across all organizations, for operators. Errors are plain text.",
        operation=Operation.READ_OUTBOX,
        answer_example=OutboxHealthResponse(
            entries=[OutboxHealthEntry(OutboxStatus.PENDING, "account.created", 1, _NOON, 0, None)],
            pending=1,
            processing=0,
            failed=0,
            completed=0,
            oldest_claim_at=None,
            oldest_failed_at=None,
            oldest_pending_at=_NOON,
        ),
    ),
    Described(
        path="/v1/operations/outboxes",
        operation_id="showOutboxes",
        summary="Read the state of all queues, with advice",
        description="All queues with their counts across organizations, the age of the oldest due row, and a verdict: "
        "healthy; slow; failing, if rows were abandoned and no operator has acknowledged them; stuck, if no process "
        "works on the queue. The overall verdict is the worst of them.",
        operation=Operation.READ_OPERATIONS,
        answer_example=OutboxesBody(
            verdict=QueueVerdict.HEALTHY,
            read_at=_NOON,
            queues=[
                OutboxBody(
                    name=queue,
                    verdict=QueueVerdict.HEALTHY,
                    explanation="No row waits longer than it should: nothing to do.",
                    pending=0,
                    processing=0,
                    failed=0,
                    unacknowledged=0,
                    completed=1250,
                    oldest_pending_at=None,
                    oldest_claim_at=None,
                    lag_seconds=0.0,
                )
                for queue in Queue
            ],
        ),
    ),
)
