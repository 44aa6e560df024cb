"""The calls of the authorization table as a bot makes them at the front for Alpaca's bots.

An API key is the secret there, and an access token is no credential: its caller is nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from openbell_server.transport.rest.alpaca.entry import KEY_ID_HEADER, SECRET_HEADER
from openbell_server.transport.rest.alpaca.errors import STATUSES
from support.authorization.callers import CALLERS, Caller, Kind
from support.authorization.calls import Calls, Reply, Target
from support.authorization.expected_answers import Cell, all_cells, expected
from support.rest.alpaca_front import LIMIT

# By row, what the front has for it: method and path.
ROUTES: Final = {
    "submit CREATE": (("POST", "/orders"),),
    "submit REPLACE": (("PATCH", "/orders/{intent_id}"),),
    "submit CANCEL": (("DELETE", "/orders/{intent_id}"),),
    "latest": (("GET", "/orders/{intent_id}"),),
    "list": tuple(("GET", path) for path in ("/orders", "/account", "/positions", "/clock", "/assets/AAPL")),
}
_BODIES: Final = {"submit CREATE": LIMIT, "submit REPLACE": {"limit_price": "1.60"}}
_ORIGINALS: Final = {caller.name: caller for caller in CALLERS}


def front_cells() -> Iterator[Cell]:
    for cell in all_cells():
        if cell.row.name in ROUTES:
            yield replace(cell, caller=_at_the_front(cell.caller))


def _at_the_front(caller: Caller) -> Caller:
    return replace(caller, kind=Kind.NOBODY) if caller.kind in {Kind.USER, Kind.SERVICE} else caller


@dataclass(frozen=True, slots=True)
class FrontCalls(Calls):
    """Makes every call that the front has for a cell; they must be answered alike."""

    async def call(self, cell: Cell) -> Reply:
        place = await self.world.place_of(cell)
        target = await self.target(cell)
        sent = dict(await self.world.headers_of(place, replace(cell, caller=_ORIGINALS[cell.caller.name])))
        headers = [(KEY_ID_HEADER, _account_in(target)), *_as_secret(sent, cell.caller)]
        replies = []
        for method, path in ROUTES[cell.row.name]:
            aimed = Target(method, f"/alpaca/v2{path.format(intent_id=_intent_in(target))}", _BODIES.get(cell.row.name))
            replies.append(await self.door.send(aimed, headers))
        return next((reply for reply in replies if not front_fits(cell, reply)), replies[0])


def front_fits(cell: Cell, reply: Reply) -> bool:
    answer = expected(cell)
    if not answer.refused:
        return reply.status < 300
    code = dict(reply.headers).get("openbell-code")
    return (reply.status, code) == (STATUSES.get(answer.code, answer.status), answer.code)


def _as_secret(sent: dict[str, str], caller: Caller) -> list[tuple[str, str]]:
    secrets = [(SECRET_HEADER, sent["x-api-key"])] if "x-api-key" in sent else []
    others = [(name, value) for name, value in sent.items() if name != "x-api-key"]
    return [*secrets, *(secrets if caller.kind is Kind.TWO else ()), *others]


def _account_in(target: Target) -> str:
    return target.path.split("/")[3]


def _intent_in(target: Target) -> str:
    body = target.body
    if isinstance(body, dict) and "ref_intent_id" in str(body):
        return str(body["command"]["payload"]["ref_intent_id"])
    return target.path.split("?")[0].split("/")[-1]
