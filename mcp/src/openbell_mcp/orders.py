"""The tools that place, change, cancel, follow and list orders."""

from itertools import count
from typing import Any, Final

from openbell.async_client import AsyncClient
from openbell.errors import NotFinal
from openbell.intents.orders import Limit, Market, Spec, Stop, StopLimit
from openbell_mcp.answers import Answer, evaluated, is_unknown, order_of, recorded, state_of, terms_of
from openbell_mcp.inputs import (
    CancelOrder,
    NewOrder,
    OneOrder,
    PlaceOrder,
    ReplaceOrder,
    SomeOrders,
    Terms,
    WaitForOrder,
)
from openbell_mcp.marking import marked

_PRICES: Final = {
    "MARKET": (False, False),
    "LIMIT": (True, False),
    "STOP": (False, True),
    "STOP_LIMIT": (True, True),
}


def spec_of(terms: Terms) -> Spec:
    """Raises ValueError unless exactly the prices of the order type are there."""
    limit, stop = terms.limit_price, terms.stop_price
    if (limit is not None, stop is not None) != _PRICES[terms.order_type]:
        needs = [
            name
            for name, needed in zip(("limit_price", "stop_price"), _PRICES[terms.order_type], strict=True)
            if needed
        ]
        raise ValueError(f"An order of type {terms.order_type} takes {' and '.join(needs) or 'no price'}.")
    if limit is not None and stop is not None:
        return StopLimit(terms.quantity, stop_price=stop, price=limit, time_in_force=terms.time_in_force)
    if limit is not None:
        return Limit(terms.quantity, price=limit, time_in_force=terms.time_in_force)
    if stop is not None:
        return Stop(terms.quantity, stop_price=stop, time_in_force=terms.time_in_force)
    return Market(terms.quantity, time_in_force=terms.time_in_force)


async def check_order(client: AsyncClient, given: NewOrder) -> Answer:
    found = await client.evaluate(symbol=given.symbol, side=given.side, spec=spec_of(given))
    return evaluated(found.verdict, found.receipt)


async def place_order(client: AsyncClient, given: PlaceOrder) -> Answer:
    action = await client.create_intent(
        symbol=given.symbol,
        side=given.side,
        spec=spec_of(given),
        idempotency_key=given.idempotency_key,
        client_reference_id=given.client_reference_id,
    )
    return await recorded(client, action, given.idempotency_key)


async def replace_order(client: AsyncClient, given: ReplaceOrder) -> Answer:
    action = await client.replace_intent(given.intent_id, spec_of(given), idempotency_key=given.idempotency_key)
    return await recorded(client, action, given.idempotency_key)


async def cancel_order(client: AsyncClient, given: CancelOrder) -> Answer:
    action = await client.cancel_intent(given.intent_id, idempotency_key=given.idempotency_key)
    return await recorded(client, action, given.idempotency_key)


async def wait_for_order(client: AsyncClient, given: WaitForOrder) -> Answer:
    try:
        action = await client.wait(given.intent_id, given.seconds)
    except NotFinal as still:
        action = still.action
        waited = f" You waited {given.seconds} s." + ("" if is_unknown(action) else " You may wait again.")
        return {"answer": state_of(action) + waited, "is_final": False, **order_of(action)}
    return {"answer": state_of(action), "is_final": True, **order_of(action)}


async def order(client: AsyncClient, given: OneOrder) -> Answer:
    action = await client.intent(given.intent_id)
    return {"answer": f"{terms_of(action)}. {state_of(action)}", **order_of(action)}


async def orders(client: AsyncClient, given: SomeOrders) -> Answer:
    listed: list[Any] = []
    ordinals = count(1)
    async for each in client.orders(status=given.status, symbol=given.symbol, order="desc"):
        if next(ordinals) > given.limit:
            return {"answer": f"The newest {given.limit} orders; there are more.", "orders": listed}
        listed.append(marked(each))
    return {"answer": f"All {len(listed)} orders that match, the newest first.", "orders": listed}
