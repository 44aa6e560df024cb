"""Receipts, hash chains, and the lines of an export, which can be verified offline."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec

from openbell.models import Record

# The format of the lines below; a reader rejects other formats.
EXPORT_FORMAT: Final = 1


class Finding(Record, frozen=True, kw_only=True):
    """The result of one rule for a command."""

    code: str
    scope: str
    verdict: str
    limit: Any = None
    observed: Any = None
    control_version: int | None = None
    mode: str = "HARD"
    comparison: str | None = None
    would_pass: str | None = None
    headroom: str | None = None
    missing: str | None = None
    inputs: dict[str, str] = msgspec.field(default_factory=dict)


class Receipt(Record, frozen=True, kw_only=True):
    """Why a command was accepted or refused, rule by rule; hash is the SHA-256 of text."""

    id: str
    account_id: str
    verdict: str
    gate: str
    created_at: datetime
    hash: str
    receipt: dict[str, Any]
    text: str
    intent_id: str | None = None
    seq: int | None = None
    refusal_no: int | None = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The result of each rule."""
        return findings_of(self.receipt)


class Evaluation(Record, frozen=True, kw_only=True):
    """The result of a dry run; nothing was recorded."""

    verdict: str
    receipt: dict[str, Any]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The result of each rule."""
        return findings_of(self.receipt)


class ChainHeads(Record, frozen=True, kw_only=True):
    """The number of an account's actions and refusals, and the heads of the hash chains over them."""

    account_id: str
    organization_id: str
    actions: int
    chain_head: str
    refusals: int
    refusal_head: str


class ChainedAction(Record, frozen=True, kw_only=True):
    """The fields from which an action's hash is computed, the hash, and the receipt that is chained with it."""

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
    # Numbers are text, because their digits are hashed unchanged.
    quantity: str
    time_in_force: str
    principal_type: str
    principal_id: str
    receipt_id: str
    created_at: Annotated[datetime, msgspec.Meta(tz=True)]
    hash: str
    receipt_hash: str
    receipt_text: str
    limit_price: str | None = None
    stop_price: str | None = None
    client_reference_id: str | None = None


class ChainPage(Record, frozen=True, kw_only=True):
    """What only the first page of the chain has."""

    heads: ChainHeads


class AccountLine(Record, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="account"):
    """The first line of an export: its account, and the heads of its chains."""

    format: int
    account_id: str
    organization_id: str
    actions: int
    chain_head: str
    refusals: int
    refusal_head: str


class ActionLine(ChainedAction, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="action"):
    """An action in an export."""


class RefusalLine(Record, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="kind", tag="refusal"):
    """A refusal in an export, without fields that the hash does not cover, such as its id."""

    hash: str
    text: str
    refusal_no: int


ExportLine = AccountLine | ActionLine | RefusalLine


def findings_of(body: dict[str, Any]) -> tuple[Finding, ...]:
    """The lines of a receipt's body; empty if the body is malformed."""
    try:
        return msgspec.convert(body.get("rules", ()), tuple[Finding, ...])
    except msgspec.ValidationError:
        return ()


def export_lines(
    heads: ChainHeads, actions: Iterable[ChainedAction], refusals: Iterable[Receipt]
) -> Iterator[ExportLine]:
    """The export of an account up to heads that were read before; later records belong to the next export."""
    yield AccountLine(format=EXPORT_FORMAT, **msgspec.structs.asdict(heads))
    for action in actions:
        if action.number > heads.actions:
            break
        yield ActionLine(**msgspec.structs.asdict(action))
    for receipt in refusals:
        number = receipt.refusal_no or 0
        if number > heads.refusals:
            break
        yield RefusalLine(refusal_no=number, hash=receipt.hash, text=receipt.text)
