"""Deliveries of webhooks are genuine or refused, by the word of the specification's own library too."""

import time
from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from openbell.webhooks import InvalidSignature, verify

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
OTHER = "whsec_ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
BODY = b'{"type":"BROKER_TRADE","price":"1.50"}'
NOW = 1_767_614_400


def signed(secret: str = SECRET, body: bytes = BODY, at: int = NOW) -> dict[str, str]:
    signature = Webhook(secret).sign("account.7", datetime.fromtimestamp(at, UTC), body.decode())
    return {"webhook-id": "account.7", "webhook-timestamp": str(at), "webhook-signature": signature}


def test_what_the_specifications_own_library_signed_passes() -> None:
    verify(SECRET, signed(), BODY, now=NOW)
    verify(SECRET, signed(at=int(time.time())), BODY)


def test_headers_pass_in_any_case() -> None:
    verify(SECRET, {name.title(): value for name, value in signed().items()}, BODY, now=NOW)


def test_while_a_secret_is_replaced_either_one_passes() -> None:
    both = signed() | {"webhook-signature": f"{signed(OTHER)['webhook-signature']} {signed()['webhook-signature']}"}
    verify(SECRET, both, BODY, now=NOW)
    verify(OTHER, both, BODY, now=NOW)


@pytest.mark.parametrize("seconds", [-301, 301])
def test_a_delivery_of_more_than_five_minutes_ago_or_ahead_is_refused(seconds: int) -> None:
    verify(SECRET, signed(), BODY, now=NOW + seconds - seconds // abs(seconds))
    with pytest.raises(InvalidSignature, match="five minutes"):
        verify(SECRET, signed(), BODY, now=NOW + seconds)


@pytest.mark.parametrize(
    ("headers", "body", "said"),
    [
        (signed(OTHER), BODY, "no signature matches"),
        (signed(), BODY + b" ", "no signature matches"),
        (signed() | {"webhook-id": "account.8"}, BODY, "no signature matches"),
        (signed() | {"webhook-timestamp": str(NOW + 1)}, BODY, "no signature matches"),
        (signed() | {"webhook-signature": signed()["webhook-signature"].replace("v1,", "v2,")}, BODY, "no signature"),
        (signed() | {"webhook-signature": ""}, BODY, "no signature matches"),
        (signed() | {"webhook-signature": "v1,ä"}, BODY, "no signature matches"),
        (signed() | {"webhook-timestamp": "soon"}, BODY, "not a time"),
        (signed() | {"webhook-timestamp": "9" * 30}, BODY, "not a time"),
        ({}, BODY, "webhook-id is missing"),
    ],
)
def test_whatever_was_changed_on_its_way_is_refused(headers: dict[str, str], body: bytes, said: str) -> None:
    with pytest.raises(InvalidSignature, match=said):
        verify(SECRET, headers, body, now=NOW)


def test_a_secret_that_is_none_is_the_caller_s_mistake() -> None:
    with pytest.raises(ValueError, match="whsec_"):
        verify("whsec_not base64!", signed(), BODY, now=NOW)
