"""The REST application with routes that were registered before: registering them takes longer than most tests do."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

from litestar import Litestar
from litestar.handlers import HTTPRouteHandler
from litestar.router import Router
from litestar.routes import HTTPRoute
from litestar.types import ControllerRouterHandler
from litestar.utils import normalize_path

from openbell_server.transport.rest import app as rest

# Applications that no test uses just now, by whether they have the front for Alpaca's bots; a test may use several.
_all_free: dict[bool, list[Litestar]] = {False: [], True: []}
Handlers = dict[tuple[str, str], HTTPRouteHandler]


@contextmanager
def routes_registered_once(*, alpaca_front: bool = False) -> Iterator[None]:
    """Inside, the application is built on routes of an earlier test, with the functions of this one."""
    free = _all_free[alpaca_front]
    used: list[Litestar] = []

    def reuse(route_handlers: Sequence[ControllerRouterHandler], **options: Any) -> Litestar:
        if not free:
            used.append(Litestar(route_handlers=route_handlers, **options))
            return used[-1]
        used.append(free.pop())
        known = _handlers_of(used[-1])
        given = {key: each for value in route_handlers for key, each in _handlers_of(value).items()}
        assert given.keys() == known.keys(), f"routes that only one test has: {given.keys() ^ known.keys()}"
        for key, handler in given.items():
            known[key]._fn = handler.fn
        return used[-1]

    with mock.patch.object(rest, "Litestar", reuse):
        yield
    free.extend(used)


def _handlers_of(value: ControllerRouterHandler) -> Handlers:
    """By path and method; Litestar adds the handlers of OPTIONS by itself."""
    if isinstance(value, HTTPRouteHandler):
        found = [(path, value) for path in value.paths]
    else:
        assert isinstance(value, Router)
        routes = [route for route in value.routes if isinstance(route, HTTPRoute)]
        found = [(route.path, handler) for route in routes for handler in route.route_handlers]
    return {
        (normalize_path(path), method): handler
        for path, handler in found
        for method in handler.http_methods
        if method != "OPTIONS"
    }
