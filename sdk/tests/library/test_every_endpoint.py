"""What the platform serves, both clients and the command line can ask for."""

import msgspec
import pytest
from endpoint_calls import CALLS
from endpoint_requests import DOCUMENT, OPERATIONS, asked_by_clients, asked_by_command

from openbell.account_requests import Account, AccountPage, Credential
from openbell.event_records import ExternalOrder
from openbell.key_requests import ApiKey, ApiKeyPage, ValidKey
from openbell.models import Record
from openbell.operation_requests import Health, Organization, Outbox, OutboxEntry, Outboxes, OutboxHealth
from openbell.webhook_requests import Webhook, WebhookLane


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
        (AccountPage, "AccountPage"),
        (Credential, "Credential"),
        (ApiKey, "ApiKey"),
        (ApiKeyPage, "ApiKeyPage"),
        (ValidKey, "ValidKey"),
        (Outbox, "Outbox"),
        (Outboxes, "Outboxes"),
        (OutboxEntry, "OutboxHealthEntry"),
        (OutboxHealth, "OutboxHealthResponse"),
        (Organization, "Organization"),
        (Health, "Health"),
        (ExternalOrder, "ExternalOrder"),
        (Webhook, "Webhook"),
        (WebhookLane, "Lane"),
    ],
)
def test_a_record_has_what_the_document_says(record: type[Record], schema: str) -> None:
    stated = DOCUMENT["components"]["schemas"][schema]
    fields = msgspec.structs.fields(record)
    assert sorted(field.name for field in fields) == sorted(stated["properties"])
    assert {field.name for field in fields if field.required} <= set(stated["required"])
