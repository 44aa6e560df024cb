"""The stored explanation of one evaluation of controls: text, hashed byte for byte, never parsed by the database."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from openbell_server.domain.accounts import TradingAccount
from openbell_server.domain.controls import Finding
from openbell_server.domain.identifiers import ReceiptId, Symbol


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was evaluated, against which epochs, and the verdict."""

    verdict: str
    text: str
    refusals: tuple[str, ...] = ()

    def shown(self, receipt_id: ReceiptId) -> dict[str, object]:
        """The whole receipt, as a caller reads it."""
        return {"id": str(receipt_id), **json.loads(self.text)}


@dataclass(frozen=True, slots=True)
class Evaluation:
    """What the controls of a symbol said, and when by the database's clock."""

    symbol: Symbol
    evaluated_at: datetime
    findings: Sequence[Finding]


def receipt_of(account: TradingAccount, evaluation: Evaluation | None = None) -> Receipt:
    """The receipt of a command; without an evaluation, of one that no control speaks about."""
    findings = evaluation.findings if evaluation else ()
    refusals = tuple(finding.code for finding in findings if finding.refuses)
    verdict = "REFUSED" if refusals else "PASSED"
    subject = {"symbol": evaluation.symbol, "evaluated_at": evaluation.evaluated_at.isoformat()} if evaluation else {}
    body = {
        "version": 1,
        "verdict": verdict,
        "organization_epoch": account.organization_epoch,
        "account_epoch": account.account_epoch,
        **subject,
        "rules": [asdict(finding) for finding in findings],
    }
    return Receipt(verdict, json.dumps(body, separators=(",", ":")), refusals)
