"""The routes of trading accounts."""

from typing import Annotated
from uuid import UUID

from litestar import Response, Router, delete, get, patch, post
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType, structs

from openbell_server.application.access.manage_accounts import ManageAccounts
from openbell_server.domain.access.accounts import (
    EXTERNAL_ID_LENGTH_MAX,
    AccountChange,
    AccountRecord,
    Environment,
    NewAccount,
    PaperProfile,
    SessionState,
    broker_and_profile,
    broker_with_profile,
)
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import AnyRequest, Enter, etag_of, if_match_of
from openbell_server.transport.rest.query_parameters import page_of
from openbell_server.transport.rest.strict_json import body_reader
from openbell_server.transport.rest.wire_types import Moment, NameText, PageOf, ReasonText, ZoneText, body_from

# The JSON schema describes these formats; the domain checks them.
BrokerText = Annotated[
    str,
    Meta(
        description="the name of a broker that this platform supports",
        examples=["paper"],
        extra_json_schema={"format": "broker"},
    ),
]
ExternalIdText = Annotated[
    str,
    Meta(
        description="the account's own id at the broker, without spaces around it",
        examples=["DU1234567"],
        extra_json_schema={"minLength": 1, "maxLength": EXTERNAL_ID_LENGTH_MAX, "format": "external-id"},
    ),
]
CurrencyText = Annotated[
    str,
    Meta(description="three capital letters", examples=["USD"], extra_json_schema={"pattern": "^[A-Z]{3}$"}),
]


class NewAccountBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to open an account."""

    name: NameText
    broker: BrokerText
    environment: Environment
    profile: PaperProfile | None = None
    external_account_id: ExternalIdText | None = None
    base_currency: CurrencyText = "USD"
    timezone: ZoneText = "UTC"

    def to_new(self) -> NewAccount:
        fields = structs.asdict(self)
        broker = broker_with_profile(fields.pop("broker"), fields.pop("profile"))
        return NewAccount(broker=broker, **fields)


class AccountChangeBody(Struct, forbid_unknown_fields=True, frozen=True):
    """The request to change an account; omitted fields stay as they are."""

    name: NameText | UnsetType = UNSET
    external_account_id: ExternalIdText | UnsetType = UNSET
    timezone: ZoneText | UnsetType = UNSET
    disabled: bool | UnsetType = UNSET
    disabled_reason: ReasonText | UnsetType = UNSET

    def to_change(self) -> AccountChange:
        sent = {name: value for name in self.__struct_fields__ if (value := getattr(self, name)) is not UNSET}
        if not sent:
            raise InvalidCommand("", f"must have one or more of {', '.join(self.__struct_fields__)}")
        return AccountChange(**sent)


class AccountBody(Struct, frozen=True):
    """A trading account."""

    id: UUID
    organization_id: UUID
    name: str
    broker: str
    environment: Environment
    base_currency: str
    timezone: str
    disabled: bool
    credential_status: CredentialStatus
    session_status: SessionState
    created_at: Moment
    updated_at: Moment
    version: int
    profile: PaperProfile | UnsetType = UNSET
    external_account_id: str | UnsetType = UNSET
    disabled_reason: str | UnsetType = UNSET
    closed_at: Moment | UnsetType = UNSET
    halt_code: str | UnsetType = UNSET
    halt_detail: str | UnsetType = UNSET
    halted_at: Moment | UnsetType = UNSET


class AccountPageBody(PageOf[AccountBody], frozen=True):
    """A page of accounts."""


def account_routes(enter: Enter, manage: ManageAccounts) -> Router:
    @post("/", status_code=201)
    async def create_account(request: AnyRequest) -> Response[AccountBody]:
        caller = await enter(request, Operation.EDIT_ACCOUNTS)
        record = await manage.create(caller, body_reader(request, NewAccountBody, NewAccountBody.to_new))
        return _answer(record, {"location": f"/v1/accounts/{record.id}"})

    @get("/")
    async def list_accounts(request: AnyRequest) -> AccountPageBody:
        caller = await enter(request, Operation.READ_ACCOUNTS)
        page = await manage.page(caller, *page_of(request))
        data = [_body(record) for record in page.rows]
        return AccountPageBody(data, page.next_cursor, page.last_cursor)

    @get("/{account_id:uuid}")
    async def show_account(request: AnyRequest, account_id: FromPath[UUID]) -> Response[AccountBody]:
        caller = await enter(request, Operation.READ_ACCOUNTS)
        return _answer(await manage.show(caller, AccountId(account_id)))

    @patch("/{account_id:uuid}")
    async def change_account(request: AnyRequest, account_id: FromPath[UUID]) -> Response[AccountBody]:
        caller = await enter(request, Operation.EDIT_ACCOUNTS)
        expected = if_match_of(request)
        decode = body_reader(request, AccountChangeBody, AccountChangeBody.to_change)
        return _answer(await manage.change(caller, AccountId(account_id), decode, expected))

    @delete("/{account_id:uuid}")
    async def close_account(request: AnyRequest, account_id: FromPath[UUID]) -> None:
        caller = await enter(request, Operation.EDIT_ACCOUNTS)
        await manage.close(caller, AccountId(account_id), if_match_of(request))

    return Router(
        "/v1/accounts",
        route_handlers=[create_account, list_accounts, show_account, change_account, close_account],
    )


def _body(record: AccountRecord) -> AccountBody:
    broker, profile = broker_and_profile(record.broker)
    return body_from(AccountBody, record, broker=broker, profile=profile)


def _answer(record: AccountRecord, headers: dict[str, str] | None = None) -> Response[AccountBody]:
    return Response(_body(record), headers={**etag_of(record.version), **(headers or {})})
