"""OpenAPI rows of the account routes."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from openbell_server.domain.access.accounts import Environment, SessionState
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.transport.rest.access.accounts import (
    AccountBody,
    AccountChangeBody,
    AccountPageBody,
    NewAccountBody,
)
from openbell_server.transport.rest.openapi.operation import ETAG, IF_MATCH, LIMIT, NEXT_CURSOR, Described, location

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_ACCOUNT: Final = AccountBody(
    id=UUID("01981d3c-7a00-7000-8000-000000000002"),
    organization_id=UUID("01981d3c-7a00-7000-8000-000000000001"),
    name="Main",
    broker="paper",
    environment=Environment.PAPER,
    base_currency="USD",
    timezone="America/New_York",
    disabled=False,
    credential_status=CredentialStatus.NOT_REQUIRED,
    session_status=SessionState.READY,
    created_at=_NOON,
    updated_at=_NOON,
    version=1,
)

ACCOUNT_OPERATIONS: Final = (
    Described(
        method="POST",
        path="/v1/accounts",
        operation_id="createAccount",
        summary="Open a trading account",
        description="Broker, environment and currency cannot be changed later. An API key opens accounts of its own "
        "environment; while one of them is halted or disabled, it needs the permission control:loosen.",
        operation=Operation.EDIT_ACCOUNTS,
        status=201,
        body=NewAccountBody,
        body_examples={
            "shortest": {"name": "Main", "broker": "paper", "environment": "paper"},
            "full": {
                "name": "Main",
                "broker": "paper",
                "environment": "paper",
                "external_account_id": "DU1234567",
                "base_currency": "USD",
                "timezone": "America/New_York",
            },
        },
        answer_example=_ACCOUNT,
        answer_headers={"ETag": ETAG, "Location": location("The path of the account.")},
        codes=("environment_mismatch", "organization_disabled", "cap_reached"),
    ),
    Described(
        path="/v1/accounts",
        operation_id="listAccounts",
        summary="List the organization's accounts",
        description="All accounts, including closed ones, in the order in which they were opened; an API key sees "
        "those of its own environment.",
        operation=Operation.READ_ACCOUNTS,
        answer_example=AccountPageBody([_ACCOUNT], None, "AAAAAAAAACpTb3B1YmJsaWNfa2V"),
        parameters=(NEXT_CURSOR, LIMIT),
    ),
    Described(
        path="/v1/accounts/{account_id}",
        operation_id="showAccount",
        summary="Read an account",
        description="The current state of the account; a closed account stays readable.",
        operation=Operation.READ_ACCOUNTS,
        answer_example=_ACCOUNT,
        answer_headers={"ETag": ETAG},
    ),
    Described(
        method="PATCH",
        path="/v1/accounts/{account_id}",
        operation_id="changeAccount",
        summary="Change, disable or enable an account",
        description="Omitted fields stay as they are; a request that changes nothing does not raise the version. "
        "external_account_id can be set once. For a disabled account no new order is sent, not even one accepted "
        "before; working orders are still followed, and CANCEL works. To enable an account or change its time zone, an "
        "API key also needs the permission control:loosen.",
        operation=Operation.EDIT_ACCOUNTS,
        body=AccountChangeBody,
        body_examples={
            "disable": {"disabled": True, "disabled_reason": "under review"},
            "enable": {"disabled": False},
            "rename": {"name": "Main, renamed"},
        },
        answer_example=_ACCOUNT,
        answer_headers={"ETag": ETAG},
        parameters=(IF_MATCH,),
        codes=("organization_disabled", "account_closed", "external_account_mismatch"),
    ),
    Described(
        method="DELETE",
        path="/v1/accounts/{account_id}",
        operation_id="closeAccount",
        summary="Close an account permanently",
        description="Refused while an order is working or an action is not settled. Closing a closed account changes "
        "nothing and is not an error, whatever If-Match contains.",
        operation=Operation.EDIT_ACCOUNTS,
        status=204,
        parameters=(IF_MATCH,),
        codes=("organization_disabled", "account_busy"),
    ),
)
