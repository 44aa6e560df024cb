"""The routes of reference prices, described."""

from datetime import UTC, datetime
from typing import Final

from openbell_server.domain.authorization import Operation
from openbell_server.transport.rest.openapi.described import Described, Parameter
from openbell_server.transport.rest.references import (
    PriceBody,
    PricesBody,
    RateBody,
    ReferencesBody,
    ReferencesRequest,
)

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_PRICE: Final = PriceBody("paper", "AAPL", "187.50", _NOON, "given")

REFERENCE_OPERATIONS: Final = (
    Described(
        method="PUT",
        path="/v1/reference-prices",
        operation_id="putReferencePrices",
        tag="Controls",
        summary="Give prices and rates of exchange to judge by",
        description="For symbols whose broker quotes none, and for limits in another currency. Each is kept unless "
        "there is a newer one; a time in the future is refused. The answer tells what there is after.",
        operation=Operation.EDIT_REFERENCES,
        body=ReferencesRequest,
        body_examples={
            "a price": {"prices": [{"broker": "paper", "symbol": "AAPL", "price": "187.50"}]},
            "a rate": {"rates": [{"from": "EUR", "to": "USD", "rate": "1.0842", "as_of": "2026-01-05T12:00:00Z"}]},
        },
        answer=ReferencesBody,
        answer_example=ReferencesBody([_PRICE], [RateBody("EUR", "USD", "1.0842", _NOON)]),
        codes=("organization_disabled", "not_found"),
    ),
    Described(
        method="GET",
        path="/v1/accounts/{account_id}/reference-prices",
        operation_id="listReferencePrices",
        tag="Controls",
        summary="Read the prices that an account is judged by",
        description="The newest price of each symbol, however old: a rule says how old one may be. Without symbols, "
        "those of the account's broker, at most 500.",
        operation=Operation.READ_CONTROLS,
        answer=PricesBody,
        answer_example=PricesBody([PriceBody("paper", "AAPL", "187.505", _NOON, "quote", "187.50", "187.51")]),
        parameters=(
            Parameter(
                name="symbols",
                place="query",
                description="Only these, with commas between, in any spelling that the broker takes.",
                schema={"type": "string", "pattern": "^[A-Za-z0-9.\\-/:_]{1,32}(,[A-Za-z0-9.\\-/:_]{1,32}){0,499}$"},
                example="AAPL,MSFT",
            ),
        ),
    ),
)
