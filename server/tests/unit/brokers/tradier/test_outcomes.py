"""Which answers of Tradier are definite: those its tables list, and nothing else."""

from http import HTTPStatus
from itertools import product

import msgspec
import pytest

from openbell_server.brokers.http_client import Reply
from openbell_server.brokers.tradier.outcomes import (
    CANCEL_CODES,
    DELETE,
    ORDER_CODES,
    POST,
    RATE_LIMITED,
    TEXTS,
    TURNED_AWAY,
    outcome_of,
)
from openbell_server.domain.orders.broker_reports import Accepted, NotSent, Refused, Unknown

METHODS = (POST, DELETE)
CODES = {POST: ORDER_CODES, DELETE: CANCEL_CODES}
STATUSES = [status.value for status in HTTPStatus]
SAID = sorted(ORDER_CODES | {"OmsInternalError", "OmsUnavailable", "", "Backoffice rejected override of the order."})
FAULTS = sorted({code for _, code in TURNED_AWAY} | {RATE_LIMITED[1], "steps.oauth.v2.InvalidApiKey", ""})


def reply(status: int, body: object, **headers: str) -> Reply:
    return Reply(status, headers, body if isinstance(body, bytes) else msgspec.json.encode(body))


def fault(code: str) -> dict[str, object]:
    return {"fault": {"faultstring": "f", "detail": {"errorcode": code}}}


@pytest.mark.parametrize("method", METHODS)
def test_every_error_that_the_table_does_not_list_is_unknown_and_so_is_each_under_another_status(method: str) -> None:
    for status, code in product(STATUSES, SAID):
        outcome = outcome_of(method, reply(status, {"errors": {"error": code}}), "7")
        if status == 200 and code in CODES[method]:
            assert outcome == Refused(code, code)
        else:
            assert isinstance(outcome, Unknown), (status, code)


@pytest.mark.parametrize("method", METHODS)
def test_every_fault_of_the_gateway_that_the_table_does_not_list_is_unknown(method: str) -> None:
    for status, code in product(STATUSES, FAULTS):
        outcome = outcome_of(method, reply(status, fault(code)), "7")
        if (status, code) == RATE_LIMITED:
            assert outcome == NotSent("f", 0.0)
        elif (status, code) in TURNED_AWAY:
            assert outcome == Refused(code, "f")
        else:
            assert isinstance(outcome, Unknown), (status, code)


def test_words_are_definite_under_their_status_for_their_command_and_from_their_beginning_only() -> None:
    for method, other in ((POST, DELETE), (DELETE, POST)):
        text = f"{TEXTS[method]}filled"
        for status in STATUSES:
            outcome = outcome_of(method, reply(status, text.encode()), "7")
            assert outcome == Refused("400", text) if status == 400 else isinstance(outcome, Unknown)
        assert isinstance(outcome_of(other, reply(400, text.encode()), "7"), Unknown)
        assert isinstance(outcome_of(method, reply(400, f"<html>{text}".encode()), "7"), Unknown)


def test_one_code_among_several_errors_is_enough_and_all_words_are_kept() -> None:
    said = {"errors": {"error": ["Backoffice rejected override of the order.", "InitialMargin"]}}
    assert outcome_of(POST, reply(200, said)) == Refused(
        "InitialMargin", "Backoffice rejected override of the order.; InitialMargin"
    )


def test_an_order_that_is_not_there_a_wrong_account_and_lost_rights_look_alike_and_prove_nothing() -> None:
    for method in METHODS:
        assert isinstance(outcome_of(method, reply(401, b"Unauthorized Account: VA00000000"), "7"), Unknown)


def test_who_asks_too_often_is_told_for_how_long_to_wait_only_by_the_gateway_itself() -> None:
    assert outcome_of(POST, reply(429, fault(RATE_LIMITED[1]), **{"retry-after": "3"})) == NotSent("f", 3.0)
    assert isinstance(outcome_of(POST, reply(429, b"<html>slow down</html>")), Unknown)


@pytest.mark.parametrize(
    "body",
    [
        {"order": {"id": 7, "status": "error"}},
        {"order": {"id": 7, "status": "ok"}, "errors": {"error": "InitialMargin"}},
        {"order": {"id": "7", "status": "ok"}},
        {},
        b"",
        b"null",
        b"<html>",
        b"\xff",
    ],
)
def test_an_answer_that_does_not_take_the_command_plainly_is_unknown(body: object) -> None:
    for method, status in product(METHODS, STATUSES):
        assert isinstance(outcome_of(method, reply(status, body), "7"), Unknown)


def test_a_command_is_accepted_under_200_and_about_its_own_order_only() -> None:
    taken = {"order": {"id": 7, "status": "ok", "partner_id": "p"}}
    assert outcome_of(POST, reply(200, taken)) == Accepted("7")
    assert outcome_of(DELETE, reply(200, taken), "7") == Accepted("7")
    assert isinstance(outcome_of(DELETE, reply(200, taken), "8"), Unknown)
    assert isinstance(outcome_of(POST, reply(201, taken)), Unknown)
