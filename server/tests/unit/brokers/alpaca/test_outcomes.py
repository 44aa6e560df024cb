"""Which answers of Alpaca are definite: those its table lists, and nothing else."""

from http import HTTPStatus
from itertools import product

import msgspec
import pytest

from openbell_server.brokers.alpaca.outcomes import DELETE, PATCH, POST, RATE_LIMITED, REFUSALS, outcome_of
from openbell_server.brokers.http_client import Reply
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Refused, Unknown
from support.brokers.alpaca_orders import order_json

METHODS = (POST, PATCH, DELETE)
CODES = sorted({code for _, _, code in REFUSALS} | {RATE_LIMITED[1], 0, 40010001, 40310999, 42210999, 50010000})
STATUSES = [status.value for status in HTTPStatus]


def reply(status: int, body: object, **headers: str) -> Reply:
    return Reply(status, headers, body if isinstance(body, bytes) else msgspec.json.encode(body))


@pytest.mark.parametrize("method", METHODS)
def test_every_status_and_code_that_the_table_does_not_list_is_unknown(method: str) -> None:
    for status, code in product(STATUSES, CODES):
        outcome = outcome_of(method, reply(status, {"code": code, "message": "m"}), "name")
        if (status, code) == RATE_LIMITED:
            assert outcome == NotSent("m", 0.0)
        elif (method, status, code) in REFUSALS:
            assert outcome == Refused(str(code), "m")
        elif (method, status) == (DELETE, 204):
            assert outcome == Accepted("name")
        else:
            assert isinstance(outcome, Unknown), (status, code)


def test_a_second_order_with_the_same_id_proves_that_the_first_was_taken_and_is_no_refusal() -> None:
    said = {"code": 40010001, "message": "client_order_id must be unique"}
    assert isinstance(outcome_of(POST, reply(422, said), "name"), Unknown)
    assert isinstance(outcome_of(PATCH, reply(422, said), "name"), Unknown)


def test_a_replace_that_was_seen_to_go_through_under_a_refusal_is_unknown() -> None:
    said = {"code": 42210000, "message": "unable to replace order, order isn't sent to exchange yet"}
    assert isinstance(outcome_of(PATCH, reply(422, said), "name"), Unknown)


def test_who_asks_too_often_is_told_for_how_long_to_wait_only_by_the_broker_itself() -> None:
    said = {"code": 42910000, "message": "rate limit exceeded"}
    assert outcome_of(POST, reply(429, said, **{"retry-after": "3"}), "name") == NotSent("rate limit exceeded", 3.0)
    assert isinstance(outcome_of(POST, reply(429, b"<html>slow down</html>"), "name"), Unknown)
    assert isinstance(outcome_of(POST, reply(429, {"message": "too many requests."}), "name"), Unknown)


@pytest.mark.parametrize(
    "body", [b"", b"null", b"[]", b"<html>", b"\xff\xfe", b'{"code": "x", "message": 1}', b'{"id": "']
)
def test_a_body_that_cannot_be_read_is_unknown_under_any_status(body: bytes) -> None:
    for method, status in product(METHODS, STATUSES):
        if (method, status) != (DELETE, 204):
            assert isinstance(outcome_of(method, reply(status, body), "name"), Unknown)


@pytest.mark.parametrize("status", [401, 403])
def test_a_no_of_the_gate_without_its_code_is_unknown(status: int) -> None:
    assert isinstance(outcome_of(POST, reply(status, {"message": "forbidden."}), "name"), Unknown)


def test_a_taken_order_is_accepted_under_our_own_id_only() -> None:
    assert outcome_of(POST, reply(200, order_json("A")), "our-A") == Accepted("A")
    assert isinstance(outcome_of(POST, reply(200, order_json("A")), "our-B"), Unknown)
    assert isinstance(outcome_of(POST, reply(201, order_json("A")), "our-A"), Unknown)
    assert isinstance(outcome_of(DELETE, reply(200, b""), "A"), Unknown)
