"""Requests as they go out, and replies as they are read."""

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from openbell import ApiError, Conflict, Invalid, Limit, Market, NotFound, RateLimited, Unavailable, UnexpectedReply
from openbell.connection import connect
from openbell.intents.requests import account_page, cancel_intent, create_intent, replace_intent
from openbell.models import Action
from openbell.replies import Reply, read_error, read_recorded
from openbell.requests import following_page

CONNECTION = connect("k", "http://x", None, "acc/1", 10.0)


def test_a_create_carries_the_command_and_its_key() -> None:
    request = create_intent(
        CONNECTION,
        symbol="AAPL",
        side="BUY",
        spec=Limit("10", price="187.50"),
        options={"idempotency_key": "k-1", "client_reference_id": "mine", "route_strategy": "IEX"},
    )
    assert (request.method, request.path) == ("POST", "/v1/accounts/acc%2F1/intents")
    assert request.headers == {"idempotency-key": "k-1", "content-type": "application/json"}
    assert json.loads(request.body or b"") == {
        "command": {
            "type": "CREATE",
            "payload": {
                "symbol": "AAPL",
                "order_side": "BUY",
                "route_strategy": "IEX",
                "spec": {"Limit": {"price": "187.50", "quantity": "10"}},
            },
        },
        "client_reference_id": "mine",
    }


def test_a_deadline_is_an_instant_and_a_duplicate_is_named_only_where_it_is_meant() -> None:
    moment = datetime(2026, 3, 6, 21, tzinfo=UTC)
    spec = Limit("10", price="187.50")
    create = create_intent(
        CONNECTION, symbol="AAPL", side="BUY", spec=spec, options={"deadline": moment, "allow_duplicate": True}
    )
    replace = replace_intent(CONNECTION, "i-1", spec, {"deadline": moment})
    assert [json.loads(request.body or b"")["deadline"] for request in (create, replace)] == [moment.isoformat()] * 2
    assert json.loads(create.body or b"")["allow_duplicate"] is True
    with pytest.raises(ValueError, match="deadline must have a time zone"):
        replace_intent(CONNECTION, "i-1", spec, {"deadline": moment.replace(tzinfo=None)})


def test_a_cancel_names_the_intent_only() -> None:
    request = cancel_intent(CONNECTION, "i-1", {"account_id": "other"})
    assert request.path == "/v1/accounts/other/intents"
    assert json.loads(request.body or b"") == {"command": {"type": "CANCEL", "payload": {"ref_intent_id": "i-1"}}}


def test_a_replace_names_the_intent_and_carries_the_whole_spec() -> None:
    request = replace_intent(CONNECTION, "i-1", Limit("12", price="188.00"), {"idempotency_key": "k-2"})
    assert (request.method, request.path) == ("POST", "/v1/accounts/acc%2F1/intents")
    assert request.headers["idempotency-key"] == "k-2"
    assert json.loads(request.body or b"") == {
        "command": {
            "type": "REPLACE",
            "payload": {"ref_intent_id": "i-1", "spec": {"Limit": {"price": "188.00", "quantity": "12"}}},
        }
    }


def test_every_command_gets_a_key_of_its_own() -> None:
    keys = {
        create_intent(CONNECTION, symbol="AAPL", side="BUY", spec=Market(1), options={}).headers["idempotency-key"]
        for _ in range(3)
    }
    assert len(keys) == 3
    assert all(len(key) == 32 for key in keys)


@pytest.mark.parametrize("key", ["", "a b", "ä", "k" * 256])
def test_an_idempotency_key_the_platform_would_refuse_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="idempotency_key"):
        cancel_intent(CONNECTION, "i-1", {"idempotency_key": key})


def test_an_id_cannot_change_the_path() -> None:
    assert CONNECTION.path(None, "intents", "../x?y") == "/v1/accounts/acc%2F1/intents/..%2Fx%3Fy"


def test_a_page_follows_until_there_is_no_cursor() -> None:
    first = account_page(CONNECTION, "intents", {})
    second = following_page(first, "c-1")
    assert second is not None
    assert second.parameters == {"limit": "100", "next_cursor": "c-1"}
    assert following_page(second, None) is None
    with pytest.raises(UnexpectedReply):
        following_page(second, "c-1")


def test_a_list_carries_its_filters_and_leaves_out_the_others() -> None:
    moment = datetime(2026, 1, 31, 9, 30, tzinfo=UTC)
    filters = {"symbol": "AAPL", "action_type": None, "since": moment}
    page = account_page(CONNECTION, "intents", filters, "c", 7)
    expected = {"limit": "7", "next_cursor": "c", "symbol": "AAPL", "since": "2026-01-31T09:30:00+00:00"}
    assert page.parameters == expected
    with pytest.raises(ValueError, match="until must have a time zone"):
        account_page(CONNECTION, "intents", {"until": moment.replace(tzinfo=None)}, None, 7)


def test_decimals_are_read_exactly_and_unknown_fields_ignored(record: dict[str, Any]) -> None:
    record["field_of_next_year"] = {"x": 1}
    record["execution"]["status"] = "STATE_OF_NEXT_YEAR"
    action = read_recorded(Reply(202, {}, json.dumps(record).encode()), Action)
    assert str(action.quantity) == "10.00"
    assert action.execution is not None
    assert action.execution.average_price == Decimal("187.123456789012345678")
    assert not action.execution.is_final
    assert not action.replayed


def test_a_record_goes_out_as_json_with_decimal_strings(record: dict[str, Any]) -> None:
    action = read_recorded(Reply(200, {}, json.dumps(record).encode()), Action)
    assert json.loads(action.to_json()) == record


def test_the_evidence_of_an_unknown_outcome_is_read(record: dict[str, Any]) -> None:
    record["execution"] |= {
        "status": "UNKNOWN",
        "certainty": "UNKNOWN",
        "unknown": {
            "since": "2026-11-02T14:30:05Z",
            "probes": [{"at": "2026-11-02T14:30:06Z", "found": False}],
            "settles_by": "the broker's evidence or an operator",
        },
    }
    execution = read_recorded(Reply(200, {}, json.dumps(record).encode()), Action).execution
    assert execution is not None
    assert execution.unknown is not None
    assert execution.unknown.probes[0].found is False


def test_a_replay_is_seen(record: dict[str, Any]) -> None:
    reply = Reply(202, {"idempotency-replayed": "true"}, json.dumps(record).encode())
    assert read_recorded(reply, Action).replayed


def test_a_problem_becomes_the_error_of_its_status() -> None:
    body = {
        "type": "about:blank",
        "title": "The command is not valid",
        "status": 422,
        "detail": "quantity must be greater than zero",
        "code": "invalid_command",
        "request_id": "r-1",
        "errors": [{"pointer": "/quantity", "code": "invalid", "message": "must be greater than zero"}],
    }
    error = read_error(Reply(422, {"x-request-id": "other"}, json.dumps(body).encode()))
    assert isinstance(error, Invalid)
    assert (error.code, error.status, error.request_id) == ("invalid_command", 422, "r-1")
    assert error.message == error.detail == "quantity must be greater than zero"
    assert str(error).startswith(error.message)
    assert error.remedy in str(error)
    assert error.errors[0].pointer == "/quantity"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(404, NotFound), (409, Conflict), (418, ApiError), (429, RateLimited), (500, Unavailable), (503, Unavailable)],
)
def test_a_reply_from_a_proxy_is_still_an_error_of_ours(status: int, kind: type[ApiError]) -> None:
    error = read_error(Reply(status, {"x-request-id": "r-9"}, b"<html>no</html>"))
    assert type(error) is kind
    assert error.code == f"http_{status}"
    assert error.request_id == "r-9"
    assert error.remedy


def test_a_redirect_is_not_followed_with_the_key() -> None:
    assert isinstance(read_error(Reply(307, {"location": "https://elsewhere.example.com"}, b"")), UnexpectedReply)


def test_a_success_that_cannot_be_read_says_which_request() -> None:
    with pytest.raises(UnexpectedReply, match="request r-2"):
        read_recorded(Reply(200, {"x-request-id": "r-2"}, b"<html>"), Action)
