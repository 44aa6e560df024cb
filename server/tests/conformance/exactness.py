"""Numbers on the wire: what a session writes and reads are exactly the decimals that were meant, to 18 places."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from random import Random
from typing import Any, Final
from urllib.parse import parse_qsl

from conformance.hostile_server import HostileServer
from conformance.samples import ACCOUNT, ORDER, TOLD_AT, Answer, Samples, samples_of
from openbell_server.application.ports.broker import BrokerReplacement, BrokerSession, ReplaceSupport
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.orders.order_terms import EXACT, Terms

DIGITS_MAX: Final = 18
# As one or the other broker calls them.
_QUANTITIES: Final = ("quantity", "qty")
_CASH, _EQUITY = ("cash", "total_cash"), ("equity", "total_equity")
_PRICES: Final = ("limit_price", "price")
_FILLED: Final = ("cum_qty", "filled_qty", "filled_quantity", "exec_quantity")
_QUOTED: Final = ("bp", "ap", "bid", "ask", "avg_fill_price")


@dataclass(slots=True)
class Exchanged:
    """Numbers that crossed the wire, and those that were others on its far side."""

    numbers: int = 0
    changed: int = 0

    def compare(self, meant: Decimal, arrived: object) -> None:
        """A text that arrived must be plain and say the same; a decimal must be the same to its last digit."""
        self.numbers += 1
        is_plain = isinstance(arrived, Decimal) or (isinstance(arrived, str) and "e" not in arrived.lower())
        if not is_plain or Decimal(str(arrived)) != meant:
            self.changed += 1


def numbers(chance: Random, decimals: int = DIGITS_MAX) -> Iterator[Decimal]:
    """The edges first, then any: up to 18 digits before the point and as many after it as are asked for."""
    least = Decimal(1).scaleb(-decimals)
    yield from (least, EXACT.subtract(Decimal(10) ** DIGITS_MAX, least), Decimal("1E+3"))
    while True:
        digits, places = chance.randint(1, DIGITS_MAX), chance.randint(0, decimals)
        yield Decimal(chance.randint(1, 10 ** (digits + places) - 1)).scaleb(-places, EXACT)


async def exact(broker: str, count: int) -> Exchanged:
    """Write and read so many orders with numbers of all lengths."""
    samples, exchanged = samples_of(broker), Exchanged()
    chance = Random("exactness")
    quantities = numbers(chance, samples.definition.capabilities.quantity_decimals)
    prices = numbers(chance)
    async with _session(samples) as (session, server):
        for _ in range(count):
            await check(session, server, exchanged, next(quantities), next(prices))
    return exchanged


async def check(
    session: BrokerSession, server: HostileServer, exchanged: Exchanged, quantity: Decimal, price: Decimal
) -> None:
    """One new order, one change of it and one look at it, with these numbers."""
    await session.submit(replace(ORDER, quantity=quantity, limit_price=price))
    _compare_written(exchanged, server.bodies.pop(), quantity, price)
    replaces = server.samples.definition.capabilities.replace
    if replaces is not ReplaceSupport.NONE:
        _tell(server, quantity, price, filled=_filled(quantity))
        await session.replace(_changed(server.samples.replacement, quantity, price))
        rest = EXACT.subtract(quantity, _filled(quantity))
        asked = rest if replaces is ReplaceSupport.NATIVE_REMAINING else quantity
        _compare_written(exchanged, server.bodies.pop(), asked, price)
    _tell(server, quantity, price, filled=quantity)
    for found in (await session.find(ACCOUNT, server.samples.order), *await session.orders_since(ACCOUNT, TOLD_AT)):
        assert found is not None
        # Terms are told where orders can be replaced.
        assert (found.terms is None) is (replaces is ReplaceSupport.NONE)
        if found.terms is not None:
            exchanged.compare(quantity, found.terms.quantity)
            exchanged.compare(price, found.terms.limit_price)
        if found.average_price is not None:
            exchanged.compare(quantity, found.filled_quantity)
            exchanged.compare(price, found.average_price)
        for execution in found.executions:
            exchanged.compare(quantity, execution.quantity)
            exchanged.compare(price, execution.price)
    for position in await session.positions(ACCOUNT):
        exchanged.compare(quantity, position.quantity.copy_abs())
    balances = await session.balances(ACCOUNT)
    exchanged.compare(quantity, balances.cash)
    exchanged.compare(price, balances.equity)
    for quote in await session.quotes(ACCOUNT, [ORDER.symbol]):
        exchanged.compare(price, quote.bid)
        exchanged.compare(price, quote.ask)


def _tell(server: HostileServer, quantity: Decimal, price: Decimal, filled: Decimal) -> None:
    for route in server.samples.routes:
        if not route.is_feed and route.method == "GET":
            body = _retold(route.answers[0].body, quantity, price, filled)
            server.replies[route.name] = Answer(route.answers[0].status, body)


def _compare_written(exchanged: Exchanged, body: bytes, quantity: Decimal, price: Decimal) -> None:
    """What is written is an object, or a form."""
    written = json.loads(body) if body.startswith(b"{") else dict(parse_qsl(body.decode(), strict_parsing=True))
    for meant, places in ((quantity, _QUANTITIES), (price, _PRICES)):
        exchanged.compare(meant, next(written[name] for name in places if name in written))


def _filled(quantity: Decimal) -> Decimal:
    """Some part of it, as exact as the whole."""
    last = Decimal(1).scaleb(int(quantity.as_tuple().exponent))
    return EXACT.subtract(quantity, last) if quantity > last else Decimal(0)


def _changed(replacement: BrokerReplacement, quantity: Decimal, price: Decimal) -> BrokerReplacement:
    terms: Terms = replace(replacement.terms, quantity=quantity, limit_price=price)
    return replace(replacement, terms=terms, filled_quantity=_filled(quantity))


def _retold(body: bytes, quantity: Decimal, price: Decimal, filled: Decimal) -> bytes:
    """An answer with these numbers: texts where it has texts, numbers where it has numbers."""

    def retell(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {key: retell(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [retell(each, name) for each in value]
        for names, number in (
            (_FILLED, filled),
            ((*_QUANTITIES, *_CASH), quantity),
            ((*_PRICES, *_QUOTED, *_EQUITY), price),
        ):
            if name in names and value is not None:
                return f"{number:f}" if isinstance(value, str) else f"@{number:f}@"
        return value

    return json.dumps(retell(json.loads(body))).replace('"@', "").replace('@"', "").encode()


@asynccontextmanager
async def _session(samples: Samples) -> AsyncIterator[tuple[BrokerSession, HostileServer]]:
    server = HostileServer(samples)
    async with server.serving():
        session = await samples.definition.open_session(dict.fromkeys(Environment, server.address))
        try:
            if samples.secrets is not None:
                await session.sign_in(ACCOUNT, Environment.PAPER, samples.secrets)
            yield session, server
        finally:
            await session.close()
