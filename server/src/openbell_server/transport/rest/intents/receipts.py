"""The routes of receipts and of the hash chains that prove them."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import get
from litestar.handlers import HTTPRouteHandler
from litestar.params import FromPath
from msgspec import UNSET, Meta, Struct, UnsetType

from openbell_server.application.controls.ports.rules import ChainedAction, ChainHeads, StoredReceipt
from openbell_server.application.intents.read_receipts import ReadReceipts
from openbell_server.application.paging import Page
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.controls.facts import Gate
from openbell_server.domain.identifiers import AccountId, IntentId, ReceiptId
from openbell_server.domain.orders.intents import ActionType, plain
from openbell_server.domain.orders.order_terms import OrderSide, OrderType, RouteStrategy, TimeInForce
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.query_parameters import page_of, require_refused
from openbell_server.transport.rest.wire_types import Moment

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class StoredReceiptBody(Struct, frozen=True):
    """A receipt as it was stored, with its hash."""

    id: UUID
    account_id: UUID
    verdict: str
    gate: Gate
    created_at: Moment
    hash: Annotated[Sha256, Meta(description="SHA-256 of text as UTF-8")]
    body: dict[str, Any]
    text: Annotated[str, Meta(description="the body byte for byte as it was stored")]
    # Absent for a command that was not recorded.
    intent_id: UUID | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    # Refusals only.
    refusal_no: int | UnsetType = UNSET


class ReceiptPageBody(Struct, frozen=True):
    """A page of receipts."""

    data: list[StoredReceiptBody]
    next_cursor: str | None
    last_cursor: str | None


class ChainHeadsBody(Struct, frozen=True):
    """The current heads of both chains of an account."""

    account_id: UUID
    organization_id: UUID
    actions: Annotated[int, Meta(description="number of actions in the chain")]
    chain_head: Sha256
    refusals: Annotated[int, Meta(description="number of refusals in their chain")]
    refusal_head: Sha256


class ReceiptTextBody(Struct, frozen=True):
    """A receipt as it is hashed into the chain."""

    hash: Sha256
    text: str


class ChainedActionBody(Struct, frozen=True):
    """Every field that an action's hash covers, the hash, and the receipt chained with it."""

    number: int
    chained_from: Annotated[int, Meta(description="number of the first action of the same commit")]
    id: UUID
    intent_id: UUID
    account_id: UUID
    organization_id: UUID
    seq: int
    action_type: ActionType
    symbol: str
    order_side: OrderSide
    order_type: OrderType
    route_strategy: RouteStrategy
    quantity: str
    time_in_force: TimeInForce
    principal_type: str
    principal_id: str
    receipt_id: UUID
    created_at: Moment
    hash: Sha256
    receipt: ReceiptTextBody
    limit_price: str | UnsetType = UNSET
    stop_price: str | UnsetType = UNSET
    client_reference_id: str | UnsetType = UNSET


class ChainPageBody(Struct, frozen=True):
    """A page of an account's chain."""

    data: list[ChainedActionBody]
    next_cursor: str | None
    last_cursor: str | None


def receipt_routes(enter: Enter, read: ReadReceipts) -> list[HTTPRouteHandler]:
    @get("/v1/accounts/{account_id:uuid}/receipts/{receipt_id:uuid}")
    async def show_receipt(
        request: AnyRequest, account_id: FromPath[UUID], receipt_id: FromPath[UUID]
    ) -> StoredReceiptBody:
        caller = await enter(request, Operation.READ_INTENTS)
        return receipt_body(await read.one(caller, AccountId(account_id), ReceiptId(receipt_id)))

    @get("/v1/accounts/{account_id:uuid}/intents/{intent_id:uuid}/receipts")
    async def list_receipts_of_intent(
        request: AnyRequest, account_id: FromPath[UUID], intent_id: FromPath[UUID]
    ) -> ReceiptPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        return _page(await read.of_intent(caller, AccountId(account_id), IntentId(intent_id), *page_of(request)))

    @get("/v1/accounts/{account_id:uuid}/receipts")
    async def list_refusals(request: AnyRequest, account_id: FromPath[UUID]) -> ReceiptPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        require_refused(request)
        return _page(await read.refusals(caller, AccountId(account_id), *page_of(request)))

    @get("/v1/accounts/{account_id:uuid}/chain")
    async def show_chain(request: AnyRequest, account_id: FromPath[UUID]) -> ChainHeadsBody:
        caller = await enter(request, Operation.READ_INTENTS)
        heads: ChainHeads = await read.heads(caller, AccountId(account_id))
        return ChainHeadsBody(
            account_id=account_id,
            organization_id=caller.organization_id,
            actions=heads.actions,
            chain_head=heads.chain_head.hex(),
            refusals=heads.refusals,
            refusal_head=heads.refusal_head.hex(),
        )

    @get("/v1/accounts/{account_id:uuid}/chain/actions")
    async def list_chained_actions(request: AnyRequest, account_id: FromPath[UUID]) -> ChainPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        page = await read.chain(caller, AccountId(account_id), *page_of(request))
        return ChainPageBody([_chained(each) for each in page.rows], page.next_cursor, page.last_cursor)

    return [show_receipt, list_receipts_of_intent, list_refusals, show_chain, list_chained_actions]


def receipt_body(receipt: StoredReceipt) -> StoredReceiptBody:
    body = msgspec.json.decode(receipt.body, type=dict[str, Any])
    return StoredReceiptBody(
        id=receipt.receipt_id,
        account_id=receipt.account_id,
        verdict=receipt.verdict,
        # The first receipts have no gate; all of them were written at acceptance.
        gate=Gate(body.get("gate", Gate.ACCEPT)),
        created_at=receipt.created_at,
        hash=receipt.hash.hex(),
        body=body,
        text=receipt.body,
        intent_id=UNSET if receipt.intent_id is None else receipt.intent_id,
        seq=UNSET if receipt.seq is None else receipt.seq,
        refusal_no=UNSET if receipt.refusal_no is None else receipt.refusal_no,
    )


def _page(page: Page[StoredReceipt]) -> ReceiptPageBody:
    return ReceiptPageBody([receipt_body(each) for each in page.rows], page.next_cursor, page.last_cursor)


def _chained(chained: ChainedAction) -> ChainedActionBody:
    action = chained.action
    return ChainedActionBody(
        number=action.number,
        chained_from=chained.chained_from,
        id=action.id,
        intent_id=action.intent_id,
        account_id=action.account_id,
        organization_id=action.organization_id,
        seq=action.seq,
        action_type=action.action_type,
        symbol=action.symbol,
        order_side=action.order_side,
        order_type=action.order_type,
        route_strategy=action.route_strategy,
        quantity=format(action.quantity, "f"),
        time_in_force=action.time_in_force,
        principal_type=action.principal_type,
        principal_id=action.principal_id,
        receipt_id=action.receipt_id,
        created_at=action.created_at,
        hash=chained.hash.hex(),
        receipt=ReceiptTextBody(chained.receipt_hash.hex(), chained.receipt_text),
        limit_price=plain(action.limit_price) or UNSET,
        stop_price=plain(action.stop_price) or UNSET,
        client_reference_id=UNSET if action.client_reference_id is None else action.client_reference_id,
    )
