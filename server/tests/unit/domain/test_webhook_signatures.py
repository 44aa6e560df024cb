"""Signatures of deliveries, as others verify them."""

import base64
import time

import pytest
from standardwebhooks import Webhook, WebhookVerificationError

from openbell_server.domain.events.webhook_signatures import signed_headers

NEW, OLD, OTHER = b"n" * 32, b"o" * 32, b"x" * 32
BODY = '{"type":"BROKER_ORDER","symbol":"Ä"}'.encode()


def verify(headers: dict[str, str], key: bytes, body: bytes = BODY) -> None:
    Webhook(f"whsec_{base64.b64encode(key).decode()}").verify(body, headers)


def test_the_package_of_the_standard_verifies_both_the_new_and_the_replaced_secret() -> None:
    headers = signed_headers("account.7", int(time.time()), BODY, [NEW, OLD])
    verify(headers, NEW)
    verify(headers, OLD)
    with pytest.raises(WebhookVerificationError):
        verify(headers, OTHER)


@pytest.mark.parametrize("change", [{"webhook-id": "account.8"}, {"webhook-timestamp": str(int(time.time()) - 30)}])
def test_neither_the_id_nor_the_time_can_be_changed(change: dict[str, str]) -> None:
    with pytest.raises(WebhookVerificationError):
        verify({**signed_headers("account.7", int(time.time()), BODY, [NEW]), **change}, NEW)


def test_the_body_cannot_be_changed() -> None:
    with pytest.raises(WebhookVerificationError):
        verify(signed_headers("account.7", int(time.time()), BODY, [NEW]), NEW, BODY + b" ")
