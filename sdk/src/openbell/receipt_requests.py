"""Pure building of the requests for receipts and chains."""

from urllib.parse import quote

import msgspec

from openbell.connection import Connection
from openbell.requests import PAGE_LIMIT, Request


def receipt(connection: Connection, receipt_id: str, account_id: str | None) -> Request:
    """One receipt."""
    return Request("GET", f"{_account(connection, account_id)}/receipts/{quote(receipt_id, safe='')}")


def receipts_of_intent(connection: Connection, intent_id: str, account_id: str | None) -> Request:
    """The first page of an intent's receipts."""
    return _page(f"{_account(connection, account_id)}/intents/{quote(intent_id, safe='')}/receipts")


def refusals(connection: Connection, account_id: str | None) -> Request:
    """The first page of an account's refusals."""
    return _page(f"{_account(connection, account_id)}/receipts", refused="true")


def chain(connection: Connection, account_id: str | None) -> Request:
    """Where both chains of an account stand."""
    return Request("GET", f"{_account(connection, account_id)}/chain")


def chained_actions(connection: Connection, account_id: str | None) -> Request:
    """The first page of an account's chain."""
    return _page(f"{_account(connection, account_id)}/chain/actions")


def evaluation(connection: Connection, submit: Request, account_id: str | None) -> Request:
    """The dry run of a submit."""
    assert submit.body is not None, "a submit has a body"
    body = {**msgspec.json.decode(submit.body), "account_id": connection.account(account_id)}
    headers = {"content-type": "application/json"}
    return Request("POST", "/v1/controls/evaluate", headers=headers, body=msgspec.json.encode(body))


def _page(path: str, **parameters: str) -> Request:
    return Request("GET", path, parameters={"limit": str(PAGE_LIMIT), **parameters})


def _account(connection: Connection, account_id: str | None) -> str:
    return f"/v1/accounts/{quote(connection.account(account_id), safe='')}"
