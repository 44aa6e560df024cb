"""What the simulator refuses, in the codes of Alpaca: a client that knows them need not look the order up."""

from typing import Any

import pytest
from torture_bot import a_bot

LIMIT = {"type": "limit", "limit_price": "10.001"}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ({"side": "sell"}, (403, 40310000)),
        ({"qty": "9999999999"}, (403, 40310000)),
        ({"symbol": "ZZZZZZ"}, (422, 42210000)),
        (LIMIT, (422, 42210000)),
    ],
    ids=["no shares to sell", "no money", "no such symbol", "off the tick"],
)
async def test_a_definite_refusal_has_the_code_that_alpaca_sends(
    terms: dict[str, Any], expected: tuple[int, int]
) -> None:
    async with a_bot() as bot:
        body = {"symbol": "AAPL", "qty": "10", "side": "buy", "type": "market", "time_in_force": "gtc"}
        answer = await bot.client.post("/v2/orders", json={**body, **terms})
        assert (answer.status_code, answer.json()["code"]) == expected
        assert bot.orders == []
