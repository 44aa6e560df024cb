"""Webhooks: secrets that nobody stores, and what no webhook may be about."""

import base64
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.events.account_events import EventKind
from openbell_server.domain.events.webhooks import (
    ACCOUNTS_MAX,
    SECRET_OVERLAP,
    NewWebhook,
    Webhook,
    WebhookStatus,
    secret_of,
)
from openbell_server.domain.identifiers import AccountId, OrganizationId

KEY = b"k" * 32
ORGANIZATION_ID = OrganizationId(UUID(int=1))
WEBHOOK_ID = UUID(int=2)
NOW = datetime(2026, 1, 5, tzinfo=UTC)


def a_webhook(secret_version: int, previous_secret_until: datetime | None) -> Webhook:
    return Webhook(
        id=WEBHOOK_ID,
        organization_id=ORGANIZATION_ID,
        url="https://example.com/hook",
        description=None,
        kinds=frozenset(EventKind),
        account_ids=None,
        environment=None,
        status=WebhookStatus.ACTIVE,
        secret_version=secret_version,
        previous_secret_until=previous_secret_until,
        version=1,
        created_at=NOW,
        updated_at=NOW,
        principal=("USER", "u"),
    )


def test_a_secret_is_the_same_whenever_it_is_told_and_another_for_anything_else() -> None:
    secret = secret_of(KEY, ORGANIZATION_ID, WEBHOOK_ID, 1)
    assert secret == secret_of(KEY, ORGANIZATION_ID, WEBHOOK_ID, 1)
    others = [
        secret_of(b"o" * 32, ORGANIZATION_ID, WEBHOOK_ID, 1),
        secret_of(KEY, OrganizationId(UUID(int=3)), WEBHOOK_ID, 1),
        secret_of(KEY, ORGANIZATION_ID, UUID(int=3), 1),
        secret_of(KEY, ORGANIZATION_ID, WEBHOOK_ID, 2),
    ]
    assert len({secret.value, *(other.value for other in others)}) == 5


def test_a_secret_is_told_as_receivers_expect_it_and_does_not_show_itself() -> None:
    secret = secret_of(KEY, ORGANIZATION_ID, WEBHOOK_ID, 1)
    assert secret.text.startswith("whsec_")
    assert base64.b64decode(secret.text.removeprefix("whsec_")) == secret.value
    assert len(secret.value) == 32
    assert repr(secret) == "WebhookSecret()"


def test_after_a_rotation_the_secret_before_signs_along_until_its_time_is_over() -> None:
    rotated = a_webhook(3, NOW + SECRET_OVERLAP)
    assert rotated.secret_versions(NOW) == (3, 2)
    assert rotated.secret_versions(NOW + SECRET_OVERLAP - timedelta(microseconds=1)) == (3, 2)
    assert rotated.secret_versions(NOW + SECRET_OVERLAP) == (3,)
    assert a_webhook(3, None).secret_versions(NOW) == (3,)


@pytest.mark.parametrize(
    ("kinds", "account_ids", "field"),
    [
        (frozenset[EventKind](), None, "/types"),
        (frozenset(EventKind), frozenset[AccountId](), "/account_ids"),
        (frozenset(EventKind), frozenset(AccountId(UUID(int=n)) for n in range(ACCOUNTS_MAX + 1)), "/account_ids"),
    ],
)
def test_a_webhook_of_nothing_or_of_too_many_accounts_is_refused(
    kinds: frozenset[EventKind], account_ids: frozenset[AccountId] | None, field: str
) -> None:
    with pytest.raises(InvalidCommand) as refused:
        NewWebhook(url="https://example.com/", description=None, kinds=kinds, account_ids=account_ids, environment=None)
    assert refused.value.errors[0].pointer == field
