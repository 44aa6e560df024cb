"""Symbols as callers spell them."""

from collections.abc import Mapping

from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.domain.access.accounts import TradingAccount
from openbell_server.domain.errors import InvalidParameter
from openbell_server.domain.identifiers import Symbol


def symbol_at(brokers: Mapping[str, BrokerDefinition], account: TradingAccount, spelled: str) -> Symbol:
    """The symbol in the spelling of the account's broker; raises InvalidParameter if it is none there."""
    symbol = brokers[account.broker].canonical_symbol(spelled)
    if symbol is None:
        raise InvalidParameter("symbol", "must be 1 to 32 of A-Z, 0-9 and . - / : _")
    return symbol
