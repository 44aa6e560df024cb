"""The commands under `openbell prices`."""

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Annotated

import typer

from openbell.cli.options import Account, Json, Key, Token, Url, client_for
from openbell.cli.outcomes import told_plainly
from openbell.cli.plain_text import printable

if TYPE_CHECKING:
    from openbell.references import GivenPrice, GivenRate, ReferencePrice

app = typer.Typer(help="Give and show what rules judge by.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def give(
    entries: Annotated[
        list[str], typer.Argument(metavar="NAME=NUMBER...", help="A price AAPL=187.50, or a rate EUR/USD=1.0842.")
    ],
    broker: Annotated[
        str | None, typer.Option("--broker", help="Whose symbols they are; without one they are rates.")
    ] = None,
    as_of: Annotated[datetime | None, typer.Option("--as-of", formats=["%Y-%m-%dT%H:%M:%S%z"])] = None,
    organization: Annotated[
        str | None, typer.Option("--organization", help="For which organization, by a service account's token.")
    ] = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Give prices of a broker's symbols, or rates of exchange; it takes an access token."""
    named = [_entry(word) for word in entries]
    with told_plainly(as_json=as_json), client_for(url, api_key, None, token=token) as client:
        prices, rates = _given(named, broker, as_of)
        kept = client.give_references(prices, rates, organization_id=organization)
        _show(kept.prices, as_json=as_json)
        from openbell.cli.tables import told_at

        for rate in kept.rates:
            text = f"1 {rate.from_currency} is {rate.rate:f} {rate.to_currency} ({told_at(rate.as_of)})"
            typer.echo(rate.to_json() if as_json else printable(text))


@app.command()
def show(
    symbols: Annotated[list[str] | None, typer.Argument(metavar="SYMBOL...", help="Without any, all of them.")] = None,
    account: Account = None,
    url: Url = None,
    api_key: Key = None,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Show the prices that an account is judged by."""
    with told_plainly(as_json=as_json), client_for(url, api_key, account, token=token) as client:
        _show(client.reference_prices(symbols or ()), as_json=as_json)


def _entry(word: str) -> tuple[str, Decimal]:
    name, _, number = word.partition("=")
    try:
        return name, Decimal(number)
    except InvalidOperation:
        raise typer.BadParameter(f"{word} must be a name and a number, such as AAPL=187.50") from None


def _given(
    entries: list[tuple[str, Decimal]], broker: str | None, as_of: datetime | None
) -> tuple[list["GivenPrice"], list["GivenRate"]]:
    from openbell.references import GivenPrice, GivenRate

    if broker is not None:
        return [GivenPrice(broker=broker, symbol=name, price=price, as_of=as_of) for name, price in entries], []
    rates = []
    for name, rate in entries:
        from_currency, _, to_currency = name.partition("/")
        if not to_currency:
            raise typer.BadParameter(f"{name} is no pair of currencies such as EUR/USD; a price needs --broker")
        rates.append(GivenRate(from_currency=from_currency, to_currency=to_currency, rate=rate, as_of=as_of))
    return [], rates


def _show(prices: tuple["ReferencePrice", ...], *, as_json: bool) -> None:
    from openbell.cli.tables import told_at

    for price in prices:
        text = f"{price.symbol} at {price.broker}: {price.price:f} ({price.source}, {told_at(price.as_of)})"
        typer.echo(price.to_json() if as_json else printable(text))
