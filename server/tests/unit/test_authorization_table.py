"""The authorization table and the platform name the same operations."""

import inspect
import re
from typing import Any

from litestar import Litestar

from openbell.wire import trading_pb2 as pb
from support.authorization.callers import CALLERS
from support.authorization.expected_answers import all_cells
from support.authorization.table import OPEN_ROUTES, ROWS
from support.rest.rest_api import rest_api

# What a framework answers about a route, not an operation of ours.
FRAMEWORK_METHODS = {"OPTIONS"}


async def served() -> set[str]:
    """Every route and every RPC there is."""
    no_pool: Any = None
    async with rest_api(no_pool) as api:
        transport: Any = api.client._transport
        served = inspect.getclosurevars(transport.app).nonlocals["app"]
        litestar = inspect.getclosurevars(served).nonlocals["app"]
    assert isinstance(litestar, Litestar)
    routes = {
        f"{method} {re.sub(r':[a-z]+}', '}', route.path)}"
        for route in litestar.routes
        for method in getattr(route, "methods", ["ASGI"])
        if method not in FRAMEWORK_METHODS
    }
    calls = {
        f"{service.full_name}/{method.name}"
        for service in pb.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    return routes | calls


async def test_every_route_and_every_rpc_is_in_the_table() -> None:
    assert await served() - {row.route.partition("?")[0] for row in ROWS} - OPEN_ROUTES == set()


async def test_every_row_of_the_table_is_served() -> None:
    assert ({row.route.partition("?")[0] for row in ROWS} | OPEN_ROUTES) - await served() == set()


def test_no_caller_and_no_row_occurs_twice() -> None:
    cells = [cell.name for cell in all_cells()]
    assert len(cells) == len(set(cells))
    assert len({caller.name for caller in CALLERS}) == len(CALLERS)
