"""What the platform serves, both clients and the command line can ask for."""

import msgspec
import pytest

from openbell.access.accounts import Account, Credential
from openbell.access.api_keys import ApiKey, ValidKey
from openbell.access.audit import AuditEntry
from openbell.access.operations import Health, Organization, Outbox, OutboxEntry, Outboxes, OutboxHealth
from openbell.access.webhooks import Webhook, WebhookAttempt, WebhookLane
from openbell.events.records import ExternalOrder
from openbell.intents.desk_commands import DeskOrder
from openbell.models import PageOf, Record
from support.rest.endpoint_calls import CALLS
from support.rest.endpoint_requests import DOCUMENT, OPERATIONS, asked_by_clients, asked_by_command


def test_the_table_has_every_endpoint() -> None:
    assert sorted(CALLS) == sorted(OPERATIONS)


@pytest.mark.parametrize("operation", CALLS)
def test_both_clients_can_ask_for(operation: str) -> None:
    assert asked_by_clients(operation) == (True, True)


@pytest.mark.parametrize("operation", CALLS)
def test_a_command_asks_for(operation: str) -> None:
    assert asked_by_command(operation)


@pytest.mark.parametrize(
    ("record", "schema"),
    [
        (Account, "Account"),
        (PageOf[Account], "AccountPage"),
        (Credential, "Credential"),
        (ApiKey, "ApiKey"),
        (PageOf[ApiKey], "ApiKeyPage"),
        (ValidKey, "ValidKey"),
        (AuditEntry, "AuditEntry"),
        (PageOf[AuditEntry], "AuditPage"),
        (Outbox, "Outbox"),
        (Outboxes, "Outboxes"),
        (OutboxEntry, "OutboxHealthEntry"),
        (OutboxHealth, "OutboxHealthResponse"),
        (Organization, "Organization"),
        (Health, "Health"),
        (ExternalOrder, "ExternalOrder"),
        (DeskOrder, "DeskOrder"),
        (Webhook, "Webhook"),
        (WebhookLane, "Lane"),
        (WebhookAttempt, "Attempt"),
    ],
)
def test_a_record_has_what_the_document_says(record: type[Record], schema: str) -> None:
    stated = DOCUMENT["components"]["schemas"][schema]
    fields = msgspec.structs.fields(record)
    assert sorted(field.name for field in fields) == sorted(stated["properties"])
    assert {field.name for field in fields if field.required} <= set(stated["required"])
