"""The commands under `openbell prices`."""

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.calls import Call, connected
from openbell.cli.options import Account, group
from openbell.cli.plain_text import named_number, time_text

if TYPE_CHECKING:
    from openbell.controls.references import GivenPrice, GivenRate, ReferencePrice

app = group("Set and show the reference prices that rules use.")


@app.command()
@connected(token=True)
def give(
    call: Call,
    entries: Annotated[
        list[str], typer.Argument(metavar="NAME=NUMBER...", help="A price AAPL=187.50, or a rate EUR/USD=1.0842.")
    ],
    broker: Annotated[
        str | None, typer.Option("--broker", help="The broker of the symbols; without it, the entries are rates.")
    ] = None,
    as_of: Annotated[datetime | None, typer.Option("--as-of", formats=["%Y-%m-%dT%H:%M:%S%z"])] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", help="The organization, with a service account's token.")
    ] = None,
) -> None:
    """Set prices of a broker's symbols, or exchange rates. It takes an access token."""
    named = [named_number(entry, Decimal, "AAPL=187.50") for entry in entries]
    prices, rates = _given(named, broker, as_of)
    current = call.client.give_references(prices, rates, organization_id=organization)
    _show(call, current.prices)
    for rate in current.rates:
        call.show_line(rate, f"1 {rate.from_currency} is {rate.rate:f} {rate.to_currency} ({time_text(rate.as_of)})")


@app.command()
@connected(account=Account, token=True)
def show(
    call: Call,
    symbols: Annotated[list[str] | None, typer.Argument(metavar="SYMBOL...", help="Default: all of them.")] = None,
) -> None:
    """Show the reference prices of an account."""
    _show(call, call.client.reference_prices(symbols or ()))


def _given(
    entries: list[tuple[str, Decimal]], broker: str | None, as_of: datetime | None
) -> tuple[list["GivenPrice"], list["GivenRate"]]:
    from openbell.controls.references import GivenPrice, GivenRate

    if broker is not None:
        return [GivenPrice(broker=broker, symbol=name, price=price, as_of=as_of) for name, price in entries], []
    rates = []
    for name, rate in entries:
        from_currency, _, to_currency = name.partition("/")
        if not to_currency:
            raise typer.BadParameter(f"{name} is not a pair of currencies such as EUR/USD; for a price, add --broker")
        rates.append(GivenRate(from_currency=from_currency, to_currency=to_currency, rate=rate, as_of=as_of))
    return [], rates


def _show(call: Call, prices: "Iterable[ReferencePrice]") -> None:
    for price in prices:
        text = f"{price.symbol} at {price.broker}: {price.price:f} ({price.source}, {time_text(price.as_of)})"
        call.show_line(price, text)
