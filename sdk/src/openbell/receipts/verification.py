"""Verifies an export or one receipt offline: hashes, both chains, and every verdict."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from openbell.receipts.comparisons import flaws_of_body, flaws_of_text
from openbell.receipts.records import EXPORT_FORMAT, AccountLine, ActionLine, ExportLine, RefusalLine

CHAIN_START: Final = bytes(32)
FLAWS_MAX: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SAME_TEXTS: Final = ("action_type", "symbol", "order_side", "order_type", "time_in_force")
_SAME_NUMBERS: Final = ("quantity", "limit_price", "stop_price")
# A number of actions or refusals, and the head of their chain after that number.
KnownHead = tuple[int, str]
_decoder: Final = msgspec.json.Decoder(ExportLine)


@dataclass(frozen=True, slots=True)
class Flaw:
    """One error, and its place in the file."""

    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


@dataclass(slots=True)
class Verification:
    """The result; without flaws, everything that is counted here was verified."""

    account_id: str | None = None
    actions: int = 0
    chain_head: str = CHAIN_START.hex()
    refusals: int = 0
    refusal_head: str = CHAIN_START.hex()
    # The number of all flaws; `flaws` has the first FLAWS_MAX.
    found: int = 0
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.found == 0

    def blame(self, where: str, what: str) -> None:
        self.found += 1
        if len(self.flaws) < FLAWS_MAX:
            self.flaws.append(Flaw(where, what))


def verify_export(
    lines: Iterable[bytes], chain_head: KnownHead | None = None, refusal_head: KnownHead | None = None
) -> Verification:
    """Verify the lines of an export one at a time; it may be larger than memory.

    A person who can write the file can compute every hash again. Heads that were stored elsewhere detect that.
    """
    checking = _Export(chain_head, refusal_head)
    for number, line in enumerate(lines, 1):
        checking.take(f"line {number}", line)
    return checking.end()


def verify_receipt(text: bytes) -> Verification:
    """Verify one receipt as the API returned it: with its hash, or without as in the body of a refusal."""
    result = Verification()
    try:
        shown = json.loads(text)
    except (ValueError, RecursionError):
        result.blame("the receipt", "it is not JSON")
        return result
    if not isinstance(shown, dict):
        result.blame("the receipt", "it is not an object")
        return result
    for flaw in _flaws_of_shown(shown):
        result.blame("the receipt", flaw)
    return result


def action_hash(action: ActionLine) -> bytes:
    """SHA-256 of an action's fields, each as its length and its UTF-8, or a dash if it is absent."""
    moment = str((action.created_at - _EPOCH) // timedelta(microseconds=1))
    fields = (
        *(action.id, action.intent_id, action.account_id, action.organization_id, str(action.number)),
        *(str(action.seq), action.action_type, action.symbol, action.order_side, action.order_type),
        *(action.route_strategy, action.quantity, action.limit_price, action.stop_price, action.time_in_force),
        *(action.client_reference_id, action.principal_type, action.principal_id, action.receipt_id, moment),
    )
    encoded = (None if each is None else each.encode() for each in fields)
    return hashlib.sha256(b"".join(b"-" if each is None else b"%d:%b" % (len(each), each) for each in encoded)).digest()


class _Export:
    """Verifies an export line by line."""

    def __init__(self, chain_head: KnownHead | None, refusal_head: KnownHead | None) -> None:
        self._known = {"actions": chain_head, "refusals": refusal_head}
        self._result = Verification()
        self._account: AccountLine | None = None
        self._head = CHAIN_START
        self._refusal_head = CHAIN_START
        # The set of actions that were accepted together: its first action, and its part of the chain.
        self._set_from: int | None = None
        self._set = b""

    def take(self, where: str, text: bytes) -> None:
        try:
            line = _decoder.decode(text)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._result.blame(where, f"it is not a line of an export: {error}")
            return
        match line:
            case AccountLine():
                self._begin(where, line)
            case ActionLine():
                self._take_action(where, line)
            case RefusalLine():
                self._take_refusal(where, line)

    def end(self) -> Verification:
        result, account = self._result, self._account
        self._close_set(result.actions)
        result.chain_head, result.refusal_head = self._head.hex(), self._refusal_head.hex()
        for what, known in self._known.items():
            if known is not None:
                result.blame("the end", f"the chain of {what} has no head at {known[0]}, for which a head was given")
        if account is None:
            result.blame("line 1", "it must name the account of the export")
            return result
        for what, counted, stated in (
            ("actions", (result.actions, result.chain_head), (account.actions, account.chain_head)),
            ("refusals", (result.refusals, result.refusal_head), (account.refusals, account.refusal_head)),
        ):
            if counted[0] != stated[0]:
                result.blame("the end", f"there are {counted[0]} {what}, and line 1 states {stated[0]}")
            if counted[1] != stated[1]:
                result.blame("the end", f"the chain of the {what} ends at {counted[1]}, and line 1 states {stated[1]}")
        return result

    def _begin(self, where: str, account: AccountLine) -> None:
        if self._account is not None or self._result.actions or self._result.refusals:
            self._result.blame(where, "it names the account of the export, which only line 1 may do")
            return
        if account.format != EXPORT_FORMAT:
            self._result.blame(where, f"the format {account.format} is not supported; update openbell")
        self._account, self._result.account_id = account, account.account_id

    def _take_action(self, where: str, action: ActionLine) -> None:
        result = self._result
        place = f"{where}, action {action.number} ({action.id})"
        if result.refusals:
            result.blame(place, "actions must come before refusals")
        if action.number != result.actions + 1:
            result.blame(place, f"action {result.actions + 1} should be here")
        result.actions += 1
        account = self._account
        if account is not None and (action.account_id, action.organization_id) != (
            account.account_id,
            account.organization_id,
        ):
            result.blame(place, "it belongs to another account or organization than line 1 names")
        digest = action_hash(action)
        if digest.hex() != action.hash:
            result.blame(place, "its hash is not that of its fields")
        self._check_receipt(place, action.receipt_text, action.receipt_hash, "PASSED")
        for flaw in _differences(action):
            result.blame(place, flaw)
        if action.chained_from == action.number:
            self._close_set(result.actions - 1)
            self._set_from = action.number
        elif action.chained_from != self._set_from:
            result.blame(place, f"it claims to be accepted together with action {action.chained_from}, but it was not")
        self._set += digest + _digest(action.receipt_text)

    def _take_refusal(self, where: str, refusal: RefusalLine) -> None:
        result = self._result
        place = f"{where}, refusal {refusal.refusal_no}"
        if refusal.refusal_no != result.refusals + 1:
            result.blame(place, f"refusal {result.refusals + 1} should be here")
        result.refusals += 1
        self._check_receipt(place, refusal.text, refusal.hash, "REFUSED")
        self._refusal_head = hashlib.sha256(self._refusal_head + _digest(refusal.text)).digest()
        self._compare("refusals", result.refusals, self._refusal_head)

    def _check_receipt(self, place: str, text: str, stated_hash: str, verdict: str) -> None:
        if _digest(text).hex() != stated_hash:
            self._result.blame(place, "the receipt's hash is not that of its text")
        for flaw in flaws_of_text(text):
            self._result.blame(place, f"the receipt: {flaw}")
        body = _object(text)
        if body.get("verdict") != verdict:
            self._result.blame(place, f"the receipt's verdict is {body.get('verdict')!r} and not {verdict}")

    def _close_set(self, last: int) -> None:
        if self._set:
            self._head = hashlib.sha256(self._head + self._set).digest()
            self._compare("actions", last, self._head)
        self._set = b""

    def _compare(self, what: str, number: int, head: bytes) -> None:
        known = self._known[what]
        if known is not None and known[0] == number:
            self._known[what] = None
            if known[1] != head.hex():
                self._result.blame(
                    "the end", f"the head of the chain is {head.hex()} after {number} {what}, not {known[1]}"
                )


def _differences(action: ActionLine) -> Iterator[str]:
    """The fields in which the receipt's command differs from the action."""
    command = _object(action.receipt_text).get("command")
    if not isinstance(command, dict):
        return
    for name in _SAME_TEXTS:
        if name in command and command[name] != getattr(action, name):
            yield f"the receipt is about the {name} {command[name]!r}"
    if "quantity" not in command:
        return
    for name in _SAME_NUMBERS:
        if _decimal(command.get(name)) != _decimal(getattr(action, name)):
            yield f"the receipt is about the {name} {command.get(name)!r}"


def _flaws_of_shown(shown: dict[str, Any]) -> Iterator[str]:
    if "text" not in shown:
        # The receipt of a refusal has no hash, but its lines can be checked.
        yield from flaws_of_body(shown)
        return
    text, body = shown.get("text"), shown.get("receipt")
    if not isinstance(text, str):
        yield "the text is not a string"
        return
    if _digest(text).hex() != shown.get("hash"):
        yield "its hash is not that of its text"
    if body is not None and body != _object(text):
        yield "the receipt differs from its text"
    yield from flaws_of_text(text)
    stored = _object(text)
    for name in ("verdict", "gate"):
        if name in shown and shown[name] != stored.get(name):
            yield f"the {name} is {shown[name]!r}, and the text has {stored.get(name)!r}"
    if shown.get("refusal_no") is not None and stored.get("verdict") != "REFUSED":
        yield "it has the number of a refusal but is not a refusal"


def _digest(text: str) -> bytes:
    # JSON can contain a lone surrogate. No text of the platform does, so any hash that differs is right.
    return hashlib.sha256(text.encode(errors="surrogatepass")).digest()


def _object(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return body if isinstance(body, dict) else {}


def _decimal(value: Any) -> Decimal | None:  # noqa: ANN401 - any JSON
    try:
        return None if value is None else Decimal(str(value))
    except InvalidOperation:
        return Decimal("NaN")
