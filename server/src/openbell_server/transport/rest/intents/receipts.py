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
from openbell_server.domain.controls.findings import Verdict
from openbell_server.domain.identifiers import AccountId, ReceiptId
from openbell_server.transport.rest.entry import AnyRequest, Enter
from openbell_server.transport.rest.errors import ReceiptBody
from openbell_server.transport.rest.intents.bodies import CommandBody
from openbell_server.transport.rest.query_parameters import intent_or_refused, page_of
from openbell_server.transport.rest.wire_types import Moment, PageOf, body_from

Sha256 = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class StoredReceiptBody(Struct, frozen=True):
    """A receipt as it was stored, with its hash."""

    id: UUID
    account_id: UUID
    verdict: Verdict
    gate: Gate
    created_at: Moment
    hash: Annotated[Sha256, Meta(description="SHA-256 of text as UTF-8")]
    receipt: ReceiptBody
    text: Annotated[str, Meta(description="the receipt byte for byte as it was stored")]
    # Absent for a command that was not recorded.
    intent_id: UUID | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    # Refusals only.
    refusal_no: int | UnsetType = UNSET


class ReceiptPageBody(PageOf[StoredReceiptBody], frozen=True):
    """A page of receipts."""


class ChainHeadsBody(Struct, frozen=True):
    """The current heads of both chains of an account."""

    account_id: UUID
    organization_id: UUID
    actions: Annotated[int, Meta(description="number of actions in the chain")]
    chain_head: Sha256
    refusals: Annotated[int, Meta(description="number of refusals in their chain")]
    refusal_head: Sha256


class ChainedActionBody(CommandBody, frozen=True, kw_only=True):
    """Every field that an action's hash covers, the hash, and the receipt chained with it."""

    number: int
    chained_from: Annotated[int, Meta(description="number of the first action of the same commit")]
    hash: Sha256
    receipt_hash: Sha256
    receipt_text: str


class ChainPageBody(PageOf[ChainedActionBody], frozen=True):
    """A page of an account's chain; the first one has the heads."""

    heads: ChainHeadsBody | UnsetType = UNSET


def receipt_routes(enter: Enter, read: ReadReceipts) -> list[HTTPRouteHandler]:
    @get("/v1/accounts/{account_id:uuid}/receipts/{receipt_id:uuid}")
    async def show_receipt(
        request: AnyRequest, account_id: FromPath[UUID], receipt_id: FromPath[UUID]
    ) -> StoredReceiptBody:
        caller = await enter(request, Operation.READ_INTENTS)
        return receipt_body(await read.one(caller, AccountId(account_id), ReceiptId(receipt_id)))

    @get("/v1/accounts/{account_id:uuid}/receipts")
    async def list_receipts(request: AnyRequest, account_id: FromPath[UUID]) -> ReceiptPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        intent_id, whose = intent_or_refused(request), AccountId(account_id)
        if intent_id is None:
            return _page(await read.refusals(caller, whose, *page_of(request)))
        return _page(await read.of_intent(caller, whose, intent_id, *page_of(request)))

    @get("/v1/accounts/{account_id:uuid}/chain")
    async def list_chained_actions(request: AnyRequest, account_id: FromPath[UUID]) -> ChainPageBody:
        caller = await enter(request, Operation.READ_INTENTS)
        heads, page = await read.chain(caller, AccountId(account_id), *page_of(request))
        shown = UNSET if heads is None else _heads(caller.organization_id, account_id, heads)
        return ChainPageBody([_chained(each) for each in page.rows], page.next_cursor, page.last_cursor, heads=shown)

    return [show_receipt, list_receipts, list_chained_actions]


def receipt_body(receipt: StoredReceipt) -> StoredReceiptBody:
    # Not checked: a text that was tampered with is shown as it is.
    decoded: Any = msgspec.json.decode(receipt.body)
    return body_from(
        StoredReceiptBody,
        receipt,
        id=receipt.receipt_id,
        gate=decoded.get("gate", Gate.ACCEPT),
        hash=receipt.hash.hex(),
        receipt=decoded,
        text=receipt.body,
    )


def _page(page: Page[StoredReceipt]) -> ReceiptPageBody:
    return ReceiptPageBody([receipt_body(each) for each in page.rows], page.next_cursor, page.last_cursor)


def _heads(organization_id: UUID, account_id: UUID, heads: ChainHeads) -> ChainHeadsBody:
    return body_from(
        ChainHeadsBody,
        heads,
        account_id=account_id,
        organization_id=organization_id,
        chain_head=heads.chain_head.hex(),
        refusal_head=heads.refusal_head.hex(),
    )


def _chained(chained: ChainedAction) -> ChainedActionBody:
    return body_from(
        ChainedActionBody,
        chained.action,
        chained_from=chained.chained_from,
        hash=chained.hash.hex(),
        receipt_hash=chained.receipt_hash.hex(),
        receipt_text=chained.receipt_text,
    )
