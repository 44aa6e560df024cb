"""The stored explanation of one evaluation of controls: text, hashed byte for byte, never parsed by the database."""

import json
from dataclasses import dataclass

from openbell_server.domain.accounts import TradingAccount


@dataclass(frozen=True, slots=True)
class Receipt:
    """What was evaluated, against which epochs, and the verdict."""

    verdict: str
    text: str


def evaluate(account: TradingAccount) -> Receipt:
    """The receipt of a command that no control speaks about; controls add their lines to `rules`."""
    body = {
        "version": 1,
        "verdict": "PASSED",
        "organization_epoch": account.organization_epoch,
        "account_epoch": account.account_epoch,
        "rules": [],
    }
    return Receipt("PASSED", json.dumps(body, separators=(",", ":")))
