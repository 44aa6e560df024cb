"""Who may tighten and who may loosen: every changing operation, called by every kind of caller in both directions."""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import httpx

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.findings import Scope
from openbell_server.telemetry.logs import configure_logging
from proof.figures import Figures
from support.authorization.loosening_pairs import (
    CLEAR_TIMES,
    HEARTBEATS,
    INCOMPARABLE,
    RULES,
    SWITCHES,
    TERMS,
    TIMES,
)
from support.builders.tenant import Tenant, a_key, a_tenant
from support.environment.logins import TEST_LOGIN, allow_every_login
from support.identity.bearers import Headers, as_service, as_user
from support.rest.rest_api import RestApi, rest_api

SHOWN_MAX = 20
PAIRS_LEAST = {"full": 300, "gate": 150}
# At the gate's size every pair is called by one of so many callers in turn.
SAMPLE = 18
EDITS = frozenset({"control:edit:paper", "account:edit", "control:read", "account:read", "intent:edit"})
SCOPES = {
    "organization": "?scope=ORGANIZATION",
    "account": "?scope=ACCOUNT&account_id={account}",
    "symbol": "?scope=SYMBOL&account_id={account}&symbol=AAPL",
    "key": "?scope=KEY&api_key_id={key}",
}
SYMBOL = "/v1/controls/accounts/{account}/symbols/AAPL"
IN_FORCE = "/v1/controls/effective?account_id={account}&symbol=AAPL"
CALLERS = (
    *("admin", "member", "read_only", "service", "key with edit", "key with edit and control:loosen"),
    *("key without edit", "foreign admin", "foreign key"),
)


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str
    body: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An object in two states. A state is reached by calls of an admin; the change to the other one is one call."""

    name: str
    # Who may edit such an object: keys too, or admins only.
    by_keys: bool = True
    # How an admin makes each state, the looser one first; the last call is the change that is judged.
    loose: tuple[Call, ...]
    strict: tuple[Call, ...]
    # Whether the change to the looser state loosens, and the one to the stricter state.
    loosens: tuple[bool, bool] = (True, False)
    # Whether a key, not an admin, made the state, on the two endpoints where a key may undo that.
    set_by_key: bool = False
    # Where the object is read; None where the call makes a new one.
    read: str | None = None
    # The path names no object of the organization, so that a foreign caller names the organization in a header.
    is_unnamed: bool = False


def pairs() -> Iterator[Pair]:
    """Every changing operation."""
    for scope in SCOPES:
        yield from _rules(scope)
        switch = f"/v1/controls/switches{SCOPES[scope]}"
        for loose, strict in SWITCHES:
            yield Pair(
                name=f"{scope} switch {loose['status']} {strict['status']}",
                by_keys=scope in ("account", "symbol"),
                loose=(Call("PUT", switch, {"reason": "tests", **loose}),),
                strict=(Call("PUT", switch, {"reason": "tests", **strict}),),
                read=switch,
                is_unnamed=scope == "organization",
            )
    yield from _symbols()
    yield from _heartbeats()
    yield from _accounts()
    yield from _keys()


def _rules(scope: str) -> Iterator[Pair]:
    by_keys = scope in ("account", "symbol")

    def a_pair(name: str, code: str, loose: tuple[Call, ...], strict: tuple[Call, ...], *, compared: bool) -> Pair:
        return Pair(
            name=f"{scope} {code} {name}",
            by_keys=by_keys,
            loose=loose,
            strict=strict,
            loosens=(True, not compared),
            read=f"/v1/controls/rules{SCOPES[scope]}",
            is_unnamed=scope == "organization",
        )

    for compared, rows in ((True, RULES), (False, INCOMPARABLE)):
        for place, (code, one, other) in enumerate(rows):
            path = f"/v1/controls/rules/{code}{SCOPES[scope]}"
            bodies = [{"mode": "HARD", "parameters": each, "reason": "tests"} for each in (one, other)]
            lists = {one.get("list"), other.get("list")}
            if Scope(scope.upper()) not in CATALOGUE[code].scopes:
                continue
            if code == "RESTRICTED" and (scope == "symbol" or (scope == "key" and "DENY" in lists)):
                continue
            calls = [(Call("PUT", path, body),) for body in bodies]
            yield a_pair(f"{'parameters' if compared else 'incomparable'} {place}", code, *calls, compared=compared)
            if compared:
                yield a_pair(f"removed {place}", code, (Call("DELETE", path),), calls[1], compared=True)
    path = f"/v1/controls/rules/QTY_MAX{SCOPES[scope]}"
    permanent = Call("PUT", path, {"mode": "HARD", "parameters": {"quantity": "10"}, "reason": "tests"})
    for name, one, other in TERMS:
        loose, strict = ((permanent, Call("PUT", path, {**each, "reason": "tests"})) for each in (one, other))
        yield a_pair(name, "QTY_MAX", loose, strict, compared=True)


def _symbols() -> Iterator[Pair]:
    path = SYMBOL
    for by_key in (False, True):
        whose = "key's" if by_key else "admin's"
        off, on = (Call("PUT", path, {"manually_disabled": each}) for each in (True, False))
        yield Pair(name=f"symbol, {whose}", loose=(on,), strict=(on, off), set_by_key=by_key, read=IN_FORCE)
        for name, loose, strict in TIMES:
            clear = Call("PATCH", f"{path}/time", CLEAR_TIMES)
            states = ((clear, Call("PATCH", f"{path}/time", each)) for each in (loose, strict))
            one, other = states
            yield Pair(name=f"times {name}, {whose}", loose=one, strict=other, set_by_key=by_key, read=IN_FORCE)


def _heartbeats() -> Iterator[Pair]:
    path = f"/v1/controls/heartbeats{SCOPES['account']}"
    for place, (loose, strict) in enumerate(HEARTBEATS):
        one, other = (Call("DELETE" if each is None else "PUT", path, each) for each in (loose, strict))
        yield Pair(name=f"account heartbeats {place}", loose=(one,), strict=(other,), read=path)


def _accounts() -> Iterator[Pair]:
    path = "/v1/accounts/{account}"
    on, off = (Call("PATCH", path, {"disabled": each}) for each in (False, True))
    yield Pair(name="account enabled", loose=(on,), strict=(off,), read=path)
    zones = [(Call("PATCH", path, {"timezone": each}),) for each in ("Asia/Tokyo", "UTC")]
    yield Pair(name="account zone", loose=zones[0], strict=zones[1], loosens=(True, True), read=path)
    named = [(Call("PATCH", path, {"name": each}),) for each in ("one", "two")]
    yield Pair(name="account name", loose=named[0], strict=named[1], loosens=(False, False), read=path)
    new = Call("POST", "/v1/accounts", {"name": "fresh", "broker": "paper", "environment": "paper"})
    switch = f"/v1/controls/switches{SCOPES['account']}"
    halted, resumed = (Call("PUT", switch, {"status": each, "reason": "tests"}) for each in ("HALTED", "ACTIVE"))
    for name, stop in (("disabled", off), ("halted", halted)):
        # The states are of another account: while it is stopped, opening loosens, and otherwise it does not.
        yield Pair(
            name=f"open while {name}", loose=(resumed, on, stop, new), strict=(resumed, on, new), is_unnamed=True
        )


def _keys() -> Iterator[Pair]:
    path = "/v1/api-keys/{key}"
    for name, loose in (("disabled", False), ("own_orders_only", False)):
        one, other = ((Call("PATCH", path, {name: each}),) for each in (loose, True))
        yield Pair(name=f"key {name}", by_keys=False, loose=one, strict=other, read=path)
    new = Call("POST", "/v1/api-keys", {"name": "x", "environment": "paper", "permissions": ["control:loosen"]})
    yield Pair(name="key made", by_keys=False, loose=(new,), strict=(new,), loosens=(True, True), is_unnamed=True)


def expected(pair: Pair, caller: str, *, loosens: bool) -> tuple[bool, str]:
    """Whether the call is let in, and the code of the refusal."""
    if caller == "admin":
        return True, ""
    if caller in {"member", "read_only"}:
        return False, "permission_denied"
    if caller == "service" or ("key" in caller and not pair.by_keys):
        return False, "principal_kind_not_allowed"
    if caller.startswith("foreign"):
        return False, "organization_mismatch" if pair.is_unnamed else "not_found"
    if caller == "key without edit":
        return False, "permission_denied"
    if not loosens or pair.set_by_key or caller == "key with edit and control:loosen":
        return True, ""
    return False, "permission_denied"


@dataclass
class Run:
    """One caller, in an organization of its own, so that callers do not wait for each other."""

    api: RestApi
    caller: str
    tenant: Tenant
    headers: Headers
    key: Headers
    foreign: bool
    refused: int = 0
    both_ways: int = 0
    wrong: list[str] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)

    async def pair(self, pair: Pair) -> None:
        # What makes a new object has no state before it; what it depends on is made first.
        is_new = pair.read is None
        for before, after, loosens in (
            (pair.strict, pair.loose, pair.loosens[0]),
            (pair.loose, pair.strict, pair.loosens[1]),
        ):
            await self._prepare(pair, after[:-1] if is_new else before)
            await self._change(pair, after[-1], loosens=loosens)
        self.both_ways += 1

    async def _prepare(self, pair: Pair, calls: tuple[Call, ...]) -> None:
        admin = as_user(self.tenant)
        for place, call in enumerate(calls):
            last_by_key = pair.set_by_key and place == len(calls) - 1
            answer = await self._send(call, self.key if last_by_key else admin)
            assert answer.status_code < 300 or (call.method, answer.status_code) == ("DELETE", 404), answer.text

    async def _change(self, pair: Pair, change: Call, *, loosens: bool) -> None:
        headers = dict(self.headers)
        if self.foreign and pair.is_unnamed:
            headers["x-organization-id"] = str(self.tenant.account.organization_id)
        let_in, code = expected(pair, self.caller, loosens=loosens)
        seen = None if let_in else await self._read(pair)
        answer = await self._send(change, headers)
        found = "" if answer.status_code < 300 else answer.json()["code"]
        if (answer.status_code < 300, found) != (let_in, code):
            direction = "loosens" if loosens else "does not loosen"
            self.wrong.append(f"{self.caller}, {pair.name}, {direction}: {code or 'let in'}, but {answer.text[-200:]}")
        if answer.status_code >= 300:
            self.refused += 1
            if code == "permission_denied" and "key with edit" in self.caller:
                detail = answer.json()["detail"]
                if "control:loosen" not in detail or "(" not in detail:
                    self.wrong.append(f"{pair.name}: the refusal does not say why: {detail}")
            if seen is not None and await self._read(pair) != seen:
                self.left_behind.append(f"{self.caller}, {pair.name}")

    async def _read(self, pair: Pair) -> str:
        path = pair.read or ("/v1/api-keys" if "key" in pair.name else "/v1/accounts")
        answer = await self._send(Call("GET", path), as_user(self.tenant))
        return "" if answer.status_code == 404 else str(_without_clock(answer.json()))

    async def _send(self, call: Call, headers: Headers) -> httpx.Response:
        path = call.path.format(account=self.tenant.account.id, key=self.tenant.principal.id)
        return await self.api.client.request(call.method, path, json=call.body, headers=headers)


def _without_clock(body: Any) -> Any:
    """Without what depends on the time of the call."""
    if isinstance(body, list):
        return [_without_clock(each) for each in body]
    if not isinstance(body, dict):
        return body
    clock = {"window_open_now", "next_open_at", "evaluated_at", "as_of", "next_cursor", "last_cursor"}
    return {name: _without_clock(value) for name, value in body.items() if name not in clock}


def prove(figures: Figures) -> None:
    configure_logging("proof", "ERROR")
    with LocalServices() as services:
        create_databases(services.postgres.url())
        owner_url = services.postgres.url("openbell")
        migrate(owner_url)
        allow_every_login(owner_url)
        asyncio.run(_prove(figures, services.postgres.url("openbell", TEST_LOGIN)))


async def _prove(figures: Figures, url: str) -> None:
    every = list(pairs())
    async with await open_pool(url) as pool, rest_api(pool) as api:
        runs = [await _run(pool, api, caller) for caller in CALLERS]
        step = 1 if figures.size == "full" else SAMPLE

        async def work(number: int, run: Run) -> None:
            for place, pair in enumerate(every):
                if (place + number) % step == 0:
                    await run.pair(pair)

        await asyncio.gather(*(work(number, run) for number, run in enumerate(runs)))
    for run in runs:
        for line in [*run.wrong, *run.left_behind][:SHOWN_MAX]:
            print(line)
    figures.shown("changing operations in two directions", len(every))
    figures.shown("callers", len(runs))
    pairs_called = sum(run.both_ways for run in runs)
    figures.at_least("pairs of a tightening and a loosening call", pairs_called, PAIRS_LEAST[figures.size])
    figures.shown("calls refused", sum(run.refused for run in runs))
    figures.exactly("calls decided otherwise than the table", sum(len(run.wrong) for run in runs), 0)
    figures.exactly("refused calls that changed anything", sum(len(run.left_behind) for run in runs), 0)


async def _run(pool: Pool, api: RestApi, caller: str) -> Run:
    ours, foreign = await a_tenant(pool), caller.startswith("foreign")
    organization_id = ours.account.organization_id
    held = {
        "key with edit": EDITS,
        "key with edit and control:loosen": EDITS | {"control:loosen"},
        "key without edit": frozenset({"intent:edit", "control:read", "control:loosen"}),
    }
    editing = {"x-api-key": (await a_key(pool, organization_id, permissions=EDITS))[1]}
    if caller in held:
        headers: Headers = {"x-api-key": (await a_key(pool, organization_id, permissions=held[caller]))[1]}
    elif foreign:
        theirs = await a_tenant(pool)
        headers = as_user(theirs) if caller == "foreign admin" else {"x-api-key": theirs.key}
    elif caller == "service":
        headers = as_service(*sorted(EDITS | {"control:loosen"}), tenant=ours)
    else:
        headers = as_user(ours, caller)
    # Rules and changes of a key are about one that calls nothing; a limit on losses is only for a key of some accounts.
    body = {"name": "subject", "environment": "paper", "permissions": ["intent:read"]}
    made = await api.client.post(
        "/v1/api-keys", json=body | {"account_ids": [str(ours.account.id)]}, headers=as_user(ours)
    )
    assert made.status_code == 201, made.text
    return Run(
        api, caller, replace(ours, principal=replace(ours.principal, id=made.json()["id"])), headers, editing, foreign
    )
