"""Which answers of the paper broker are definite: those its table lists, and nothing else."""

import asyncio
from http import HTTPStatus
from itertools import product

import httpx
import pytest

from openbell_exchange.decisions import DUPLICATE_ID, TOO_MANY_REQUESTS
from openbell_server.brokers.paper.session import PaperSession
from openbell_server.brokers.paper.wire import REFUSALS
from openbell_server.domain.orders.broker_reports import NotSent, Refused, Unknown
from support.brokers.answered_http import AnsweredHttp
from support.brokers.paper_broker import resting

STATUSES = [status.value for status in HTTPStatus if status.value >= 300]
CODES = [*REFUSALS, "", "no_such_code", "TIMED_OUT", "throttled"]
TABLE = list(product(STATUSES, CODES))


async def _ask(answers: list[httpx.Response]) -> list[object]:
    told = iter(answers)
    session = PaperSession("http://paper")
    session._http = AnsweredHttp(lambda _: next(told))
    return [await session.submit(resting()) for _ in answers]


def _outcomes(answers: list[httpx.Response]) -> list[object]:
    return asyncio.run(_ask(answers))


def test_every_status_and_code_that_the_table_does_not_list_is_unknown() -> None:
    answers = [httpx.Response(status, json={"code": code, "text": "t"}) for status, code in TABLE]
    for (status, code), outcome in zip(TABLE, _outcomes(answers), strict=True):
        listed = REFUSALS.get(code) == status and code not in {DUPLICATE_ID, TOO_MANY_REQUESTS}
        if (status, code) == (REFUSALS[TOO_MANY_REQUESTS], TOO_MANY_REQUESTS):
            assert outcome == NotSent("t", 0.0)
            continue
        assert outcome == Refused(code, "t") if listed else isinstance(outcome, Unknown), (status, code)


def test_an_id_that_is_there_already_is_evidence_of_an_earlier_write_and_no_refusal() -> None:
    (outcome,) = _outcomes([httpx.Response(REFUSALS[DUPLICATE_ID], json={"code": DUPLICATE_ID, "text": "it exists"})])
    assert outcome == Unknown("it exists")


@pytest.mark.parametrize("body", [b"", b"null", b"<html>", b'{"code": 1, "text": "t"}', b'{"code": "refused"'])
def test_a_body_that_cannot_be_read_is_unknown_under_any_status(body: bytes) -> None:
    answers = [httpx.Response(status, content=body) for status in (200, 201, *STATUSES)]
    assert all(isinstance(outcome, Unknown) for outcome in _outcomes(answers))
