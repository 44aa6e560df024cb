"""The stored explanation of one evaluation of controls: text, hashed byte for byte, never parsed by the database."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol

from openbell_server.domain.control_facts import Asked, Gate
from openbell_server.domain.control_times import utc_text
from openbell_server.domain.findings import Finding, Verdict
from openbell_server.domain.identifiers import ReceiptId
from openbell_server.domain.intents import ActionType, plain
from openbell_server.domain.orders import Terms

VERSION: Final = 2
_encode: Final = json.JSONEncoder(separators=(",", ":")).encode
# Lines of a rule that are there only where they say something.
_OPTIONAL: Final = ("would_pass", "headroom", "missing", "inputs")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was evaluated, against which epochs, and the verdict."""

    verdict: str
    text: str
    # What refused, each once: a code, or that an input is not available.
    refusals: tuple[str, ...] = ()

    def shown(self, receipt_id: ReceiptId) -> dict[str, object]:
        """The whole receipt, as a caller reads it."""
        return {"id": str(receipt_id), **json.loads(self.text)}


class Epochs(Protocol):
    """Which rules were evaluated: those of these epochs."""

    @property
    def organization_epoch(self) -> int:
        """Of the organization."""

    @property
    def account_epoch(self) -> int:
        """Of the account."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What the rules said of a command, at which gate, and when by the database's clock."""

    # As the receipt has it: see asked_facts.
    command: Mapping[str, Any]
    evaluated_at: datetime
    findings: Sequence[Finding] = field(default=())
    gate: Gate = Gate.ACCEPT
    # Why no rule was asked.
    exempt: str | None = None
    # Refusals are only said.
    watched_only: bool = False


def cancel_facts(symbol: str | None = None) -> dict[str, Any]:
    """A CANCEL as its receipt has it."""
    return {"action_type": ActionType.CANCEL} | ({} if symbol is None else {"symbol": symbol})


def asked_facts(asked: Asked) -> dict[str, Any]:
    """A command as its receipt has it: all that the rules saw of it."""
    facts: dict[str, Any] = {
        "action_type": asked.action_type,
        "symbol": asked.symbol,
        "order_side": asked.order_side,
        "order_type": asked.order_type,
        **_terms_facts(asked.terms),
    }
    if asked.deadline is not None:
        facts["deadline"] = utc_text(asked.deadline)
    if asked.allow_duplicate:
        facts["allow_duplicate"] = True
    if asked.key_id is not None:
        facts["key_id"] = asked.key_id
    if asked.before is not None:
        facts["before"] = _terms_facts(asked.before) | {"filled_quantity": plain(asked.filled_quantity)}
    return facts


def _terms_facts(terms: Terms) -> dict[str, Any]:
    facts: dict[str, Any] = {"quantity": plain(terms.quantity)}
    if terms.limit_price is not None:
        facts["limit_price"] = plain(terms.limit_price)
    if terms.stop_price is not None:
        facts["stop_price"] = plain(terms.stop_price)
    return facts | {"time_in_force": terms.time_in_force}


def finding_facts(finding: Finding) -> dict[str, Any]:
    """One line of a receipt."""
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
    """The receipt of a command."""
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
