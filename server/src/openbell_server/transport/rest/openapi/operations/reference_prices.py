"""OpenAPI rows of reference prices."""

from datetime import UTC, datetime
from typing import Final

from openbell_server.domain.access.authorization import Operation
from openbell_server.transport.rest.controls.reference_prices import (
    PriceBody,
    PricesBody,
    RateBody,
    ReferencesBody,
    ReferencesRequest,
)
from openbell_server.transport.rest.openapi.operation import Described, Parameter

_NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
_PRICE: Final = PriceBody("paper", "AAPL", "187.50", _NOON, "given")

REFERENCE_OPERATIONS: Final = (
    Described(
        method="PUT",
        path="/v1/reference-prices",
        operation_id="putReferencePrices",
        summary="Set reference prices and exchange rates",
        description="For symbols that the broker does not quote, and for limits in another currency. A value is stored "
        "unless a newer one exists; a time in the future is refused. The response contains the stored values.",
        operation=Operation.EDIT_REFERENCES,
        body=ReferencesRequest,
        body_examples={
            "a price": {"prices": [{"broker": "paper", "symbol": "AAPL", "price": "187.50"}]},
            "a rate": {
                "rates": [
                    {"from_currency": "EUR", "to_currency": "USD", "rate": "1.0842", "as_of": "2026-01-05T12:00:00Z"}
                ]
            },
        },
        answer_example=ReferencesBody([_PRICE], [RateBody("EUR", "USD", "1.0842", _NOON)]),
        codes=("organization_disabled", "not_found"),
    ),
    Described(
        path="/v1/accounts/{account_id}/reference-prices",
        operation_id="listReferencePrices",
        summary="Read the reference prices of an account",
        description="The newest price of each symbol, of any age: each rule has its own maximum age. Without symbols, "
        "those of the account's broker, at most 500.",
        operation=Operation.READ_CONTROLS,
        answer_example=PricesBody([PriceBody("paper", "AAPL", "187.505", _NOON, "quote", "187.50", "187.51")]),
        parameters=(
            Parameter(
                name="symbols",
                description="Only these symbols, separated by commas, in any spelling that the broker accepts.",
                schema={"type": "string", "pattern": "^[A-Za-z0-9.\\-/:_]{1,32}(,[A-Za-z0-9.\\-/:_]{1,32}){0,499}$"},
                example="AAPL,MSFT",
            ),
        ),
    ),
)
