"""Receipts and chains as the platform shows them, and the lines of an export that anybody can verify offline."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from openbell.models import Record

# Of the lines below; a reader refuses what it does not know.
EXPORT_FORMAT: Final = 1


class Finding(Record, frozen=True, kw_only=True):
    """What one rule said of a command."""

    code: str
    scope: str
    verdict: str
    limit: Any = None
    observed: Any = None
    control_version: int | None = None
    mode: str = "hard"
    comparison: str | None = None
    would_pass: str | None = None
    headroom: str | None = None
    missing: str | None = None
    inputs: dict[str, str] = msgspec.field(default_factory=dict)


class Receipt(Record, frozen=True, kw_only=True):
    """Why a command was accepted or refused, rule by rule; the hash is SHA-256 of text."""

    id: str
    account_id: str
    verdict: str
    gate: str
    created_at: datetime
    hash: str
    body: dict[str, Any]
    text: str
    intent_id: str | None = None
    seq: int | None = None
    refusal_no: int | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every rule's word on the command."""
        return findings_of(self.body)


class Evaluation(Record, frozen=True, kw_only=True):
    """What the controls would say of a command now; nothing was recorded."""

    verdict: str
    receipt: dict[str, Any]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Every rule's word on the command."""
        return findings_of(self.receipt)


class ReceiptPage(Record, frozen=True, kw_only=True):
    """One page of receipts."""

    data: tuple[Receipt, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class ChainHeads(Record, frozen=True, kw_only=True):
    """How many actions and refusals an account has, and where the chains over them stand there."""

    account_id: str
    organization_id: str
    actions: int
    chain_head: str
    refusals: int
    refusal_head: str


class ReceiptText(Record, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receipt as a chain has it."""

    hash: str
    text: str


class ChainedAction(Record, frozen=True, kw_only=True):
    """Every field that an action's hash is taken of, the hash, and the receipt that is chained with it."""

    number: int
    chained_from: int
    id: str
    intent_id: str
    account_id: str
    organization_id: str
    seq: int
    action_type: str
    symbol: str
    order_side: str
    order_type: str
    route_strategy: str
    # Numbers as text: their digits are hashed as they are.
    quantity: str
    time_in_force: str
    principal_type: str
    principal_id: str
    receipt_id: str
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    hash: str
    receipt: ReceiptText
    limit_price: str | None = None
    stop_price: str | None = None
    client_reference_id: str | None = None


class ChainPage(Record, frozen=True, kw_only=True):
    """One page of an account's chain."""

    data: tuple[ChainedAction, ...]
    next_cursor: str | None = None
    last_cursor: str | None = None


class AccountLine(Record, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="account"):
    """The first line of an export: whose it is, and where its chains end."""

    format: int
    account_id: str
    organization_id: str
    actions: int
    chain_head: str
    refusals: int
    refusal_head: str


class ActionLine(ChainedAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="action"):
    """An action in an export."""


class RefusalLine(ReceiptText, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="refusal"):
    """A refusal in an export: what nothing proves, such as its id, is left out."""

    refusal_no: int


ExportLine = AccountLine | ActionLine | RefusalLine


def findings_of(body: dict[str, Any]) -> tuple[Finding, ...]:
    """The lines of a receipt's body; those of a body that is not the platform's are left out."""
    try:
        return msgspec.convert(body.get("rules", ()), tuple[Finding, ...])
    except msgspec.ValidationError:
        return ()


def account_line(heads: ChainHeads) -> AccountLine:
    """The first line of an export."""
    return AccountLine(format=EXPORT_FORMAT, **msgspec.structs.asdict(heads))


def action_line(action: ChainedAction) -> ActionLine:
    """The line of an action."""
    return ActionLine(**msgspec.structs.asdict(action))


def refusal_line(receipt: Receipt) -> RefusalLine:
    """The line of a refusal."""
    return RefusalLine(refusal_no=receipt.refusal_no or 0, hash=receipt.hash, text=receipt.text)


def export_lines(
    heads: ChainHeads, actions: Iterable[ChainedAction], refusals: Iterable[Receipt]
) -> Iterator[ExportLine]:
    """The export of an account up to heads that were read before: what came later is left to the next one."""
    yield account_line(heads)
    for action in actions:
        if action.number > heads.actions:
            break
        yield action_line(action)
    for receipt in refusals:
        if (receipt.refusal_no or 0) > heads.refusals:
            break
        yield refusal_line(receipt)
