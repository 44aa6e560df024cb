"""Receipts: the stored explanation of one evaluation, hashed byte for byte and never parsed by the database."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from openbell_server.domain.controls.facts import CommandFacts, Gate
from openbell_server.domain.controls.findings import Finding, Verdict
from openbell_server.domain.controls.kinds.times import utc_text
from openbell_server.domain.identifiers import ReceiptId
from openbell_server.domain.orders.intents import ActionType, plain
from openbell_server.domain.orders.order_terms import Terms

VERSION: Final = 2
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
# Fields that are left out where they are empty.
_OPTIONAL: Final = ("would_pass", "headroom", "missing", "inputs")
_TERMS: Final = (
    *("action_type", "symbol", "order_side", "order_type", "quantity", "limit_price", "stop_price", "time_in_force"),
)


@dataclass(frozen=True, slots=True)
class Receipt:
    verdict: str
    text: str
    # Reason codes of refusals, each once.
    refusals: tuple[str, ...] = ()

    def terms(self) -> dict[str, object]:
        """What the command asked for."""
        command = json.loads(self.text)["command"]
        return {name: command[name] for name in _TERMS if name in command}

    def shown(self, receipt_id: ReceiptId) -> dict[str, object]:
        return {"id": str(receipt_id), **json.loads(self.text)}


class Epochs(Protocol):
    @property
    def organization_epoch(self) -> int: ...

    @property
    def account_epoch(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """The findings of a command at a gate, at a time of the database's clock."""

    # See command_facts.
    command: Mapping[str, Any]
    evaluated_at: datetime
    findings: Sequence[Finding] = field(default=())
    gate: Gate = Gate.ACCEPT
    # Why no rule was evaluated.
    exempt: str | None = None
    # Refusals are recorded but not enforced.
    watched_only: bool = False


def cancel_facts(symbol: str | None = None) -> dict[str, Any]:
    """A CANCEL as its receipt shows it."""
    return {"action_type": ActionType.CANCEL} | ({} if symbol is None else {"symbol": symbol})


def command_facts(command: CommandFacts) -> dict[str, Any]:
    """A command as its receipt shows it: all facts that the rules used."""
    facts: dict[str, Any] = {
        "action_type": command.action_type,
        "symbol": command.symbol,
        "order_side": command.order_side,
        "order_type": command.order_type,
        **_terms_facts(command.terms),
    }
    if command.deadline is not None:
        facts["deadline"] = utc_text(command.deadline)
    if command.allow_duplicate:
        facts["allow_duplicate"] = True
    if command.protects:
        facts["protects_position"] = True
    if command.api_key_id is not None:
        facts["api_key_id"] = command.api_key_id
    if command.before is not None:
        facts["before"] = _terms_facts(command.before) | {"filled_quantity": plain(command.filled_quantity)}
    return facts


def _terms_facts(terms: Terms) -> dict[str, Any]:
    facts: dict[str, Any] = {"quantity": plain(terms.quantity)}
    if terms.limit_price is not None:
        facts["limit_price"] = plain(terms.limit_price)
    if terms.stop_price is not None:
        facts["stop_price"] = plain(terms.stop_price)
    return facts | {"time_in_force": terms.time_in_force}


def finding_facts(finding: Finding) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "code": finding.code,
        "scope": finding.scope,
        "mode": finding.mode,
        "verdict": finding.verdict,
        "comparison": finding.comparison,
        "limit": finding.limit,
        "observed": finding.observed,
        "control_version": finding.control_version,
    }
    for name in _OPTIONAL:
        value = getattr(finding, name)
        if value:
            facts[name] = dict(value) if isinstance(value, Mapping) else value
    return facts


def receipt_of(epochs: Epochs, evaluation: Evaluation) -> Receipt:
    findings = evaluation.findings
    refusals = tuple(dict.fromkeys(finding.reason for finding in findings if finding.refuses))
    verdict = Verdict.REFUSED if refusals else Verdict.PASSED
    body: dict[str, Any] = {
        "version": VERSION,
        "gate": evaluation.gate,
        "verdict": verdict,
        "organization_epoch": epochs.organization_epoch,
        "account_epoch": epochs.account_epoch,
        "evaluated_at": utc_text(evaluation.evaluated_at),
    }
    if evaluation.exempt is not None:
        body["exempt"] = evaluation.exempt
    body["command"] = evaluation.command
    if evaluation.watched_only:
        body["watched_only"] = True
    body["rules"] = [finding_facts(finding) for finding in findings]
    return Receipt(verdict, _encode(body), refusals)
