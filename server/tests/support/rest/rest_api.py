"""The REST application on real stores, called without a socket."""

import hashlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

import httpx

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.rate_limits.local_windows import LocalWindows
from openbell_server.application.access.ports.access_tokens import AccessTokens
from openbell_server.application.access.ports.fault_plans import FaultPlan
from openbell_server.application.access.ports.identity_provider import IdentityProvider
from openbell_server.application.access.ports.vault import Sealer
from openbell_server.application.access.rate_limits import LimitRates, Rates
from openbell_server.application.webhooks.ports.posting import Poster
from openbell_server.brokers.paper.fault_client import PaperFaultPlans
from openbell_server.domain.access.caps import Cap, caps_with
from openbell_server.domain.access.credentials import SealedSecrets, SecretPlace, Secrets
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.identifiers import AccountId
from openbell_server.processes.rest_wiring import RestDependencies, rest_app
from openbell_server.transport.rest.entry import ObserveRequest
from support.builders.tenant import Tenant
from support.builders.webhook_targets import RememberedPosts
from support.identity.identity_provider import Verifier
from support.rest.reused_app import routes_registered_once

CURSOR_KEY = b"a secret of the tests"
WEBHOOK_KEY = b"a key of the tests, long enough for it"
RATES = [field.name for field in fields(Rates)]
JSON = {"content-type": "application/json"}
# Where an organization sets rules.
SCOPES = [Scope.ORGANIZATION, Scope.ACCOUNT, Scope.SYMBOL, Scope.KEY]
PROBLEM_FIELDS = {"type", "title", "status", "detail", "code", "remedy", "request_id", "errors"}


@dataclass(slots=True)
class RecordedHints:
    """Hints that are counted and go nowhere."""

    rows: int = 0
    accounts: list[AccountId] = field(default_factory=list)
    sign_ins: list[AccountId] = field(default_factory=list)

    def outbox_has_rows(self) -> None:
        self.rows += 1

    def work_was_recorded(self, account_id: AccountId) -> None:
        self.rows += 1

    def events_were_written(self, account_ids: Sequence[AccountId]) -> None:
        self.accounts.extend(account_ids)

    def sign_in_was_asked_for(self, account_id: AccountId) -> None:
        self.sign_ins.append(account_id)


@dataclass(slots=True)
class RecordedSealer:
    """Implements Sealer: seals so that nobody can open, and remembers what it was given."""

    sealed: list[tuple[SecretPlace, dict[str, str]]] = field(default_factory=list)

    async def seal(self, place: SecretPlace, secrets: Secrets) -> SealedSecrets:
        self.sealed.append((place, dict(secrets)))
        return SealedSecrets("key of the tests", b"wrapped", hashlib.sha256(repr(dict(secrets)).encode()).digest())


@dataclass(frozen=True, slots=True)
class RestApi:
    """A client of the application, and the hints it gave."""

    client: httpx.AsyncClient
    hints: RecordedHints

    async def submit(
        self, tenant: Tenant, body: object, key: str | None = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        sent = {"x-api-key": tenant.key, **(headers or {})}
        if key is not None:
            sent["idempotency-key"] = key
        return await self.client.post(intents_of(tenant), json=body, headers=sent)

    async def submit_raw(
        self, tenant: Tenant, body: bytes, headers: Mapping[str, str | bytes] | None = None
    ) -> httpx.Response:
        sent = {"x-api-key": tenant.key, **JSON, **(headers or {})}
        raw = [(name, value.encode("latin-1") if isinstance(value, str) else value) for name, value in sent.items()]
        encoded = [(name.encode(), value) for name, value in raw]
        return await self.client.post(intents_of(tenant), content=body, headers=encoded)

    async def read(self, tenant: Tenant, below: str = "", **query: str | int) -> httpx.Response:
        return await self.client.get(intents_of(tenant) + below, params=query, headers={"x-api-key": tenant.key})

    async def read_pages(self, url: str, headers: Mapping[str, str], limit: int) -> tuple[list[dict[str, Any]], str]:
        """All that a list shows, page by page, and its last cursor."""
        seen: list[dict[str, Any]] = []
        cursor = None
        while True:
            query = {"limit": limit} | ({"next_cursor": cursor} if cursor else {})
            page = (await self.client.get(httpx.URL(url).copy_merge_params(query), headers=headers)).json()
            seen += page["data"]
            cursor = page["next_cursor"]
            if cursor is None:
                return seen, page["last_cursor"]


class RememberedPlans(PaperFaultPlans):
    """The fault plans of a paper broker that only remembers them."""

    def __init__(self) -> None:
        self.plans: dict[AccountId, FaultPlan] = {}

    async def read(self, account_id: AccountId) -> FaultPlan:
        return self.plans.get(account_id, FaultPlan(0, {}))

    async def set(self, account_id: AccountId, plan: FaultPlan) -> FaultPlan:
        self.plans[account_id] = replace(plan, set_at=datetime.now(UTC))
        return self.plans[account_id]

    async def clear(self, account_id: AccountId) -> None:
        self.plans.pop(account_id, None)


def rest_dependencies(pool: Pool, **given: Any) -> RestDependencies:
    """With tokens of the tests' identity provider and without limits, unless given otherwise."""
    usual: dict[str, Any] = {
        "hints": RecordedHints(),
        "cursor_key": CURSOR_KEY,
        "tokens": Verifier().tokens,
        "limit": limited(),
        "provider_name": "dev",
        "fault_plans": RememberedPlans(),
        "caps": caps_with({"reads_at_once": 1_000_000}),
    }
    return RestDependencies(pool=pool, **usual | given)


@asynccontextmanager
async def rest_api(
    pool: Pool,
    tokens: AccessTokens | None = None,
    limit: LimitRates | None = None,
    provider: IdentityProvider | None = None,
    vault: Sealer | None = None,
    observe: ObserveRequest = lambda *_: None,
    webhook_key: bytes = WEBHOOK_KEY,
    poster: Poster | None = None,
    caps: Mapping[str, Cap] | None = None,
    command_pool: Pool | None = None,
    *,
    alpaca_front: bool = False,
) -> AsyncIterator[RestApi]:
    """Believes the tokens of the tests' identity provider, and takes any number of calls, unless told otherwise."""
    given = rest_dependencies(
        pool,
        tokens=tokens or Verifier().tokens,
        limit=limit or limited(),
        provider=provider,
        sealer=vault,
        observe=observe,
        webhook_key=webhook_key,
        poster=poster or RememberedPosts(),
        command_pool=command_pool,
        alpaca_front=alpaca_front,
        **({"caps": caps} if caps else {}),
    )
    with routes_registered_once(alpaca_front=alpaca_front):
        app = rest_app(given)
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://openbell.test", timeout=60) as client:
            yield RestApi(client, cast("RecordedHints", given.hints))


def limited(**rates: int) -> LimitRates:
    """These limits and no others, on a clock that stands still: what was used up stays so, however slow the test."""
    return LimitRates(LocalWindows(lambda: 0.0), Rates(**{**dict.fromkeys(RATES, 1_000_000), **rates}))


def intents_of(tenant: Tenant) -> str:
    return f"/v1/accounts/{tenant.account.id}/intents"


def control_path(below: str, tenant: Tenant, scope: Scope = Scope.ACCOUNT, **query: object) -> str:
    """The path of what is below /v1/controls/, at a scope of the tenant."""
    place: dict[Scope, dict[str, object]] = {
        Scope.ORGANIZATION: {},
        Scope.ACCOUNT: {"account_id": tenant.account.id},
        Scope.SYMBOL: {"account_id": tenant.account.id, "symbol": "AAPL"},
        Scope.KEY: {"api_key_id": tenant.principal.id},
    }
    return f"/v1/controls/{below}?{urlencode({'scope': scope, **place[scope], **query})}"


def create_body(kind: str = "Market", symbol: str = "AAPL", **spec: object) -> dict[str, object]:
    spec = {"quantity": "10", **spec}
    return {
        "command": {"type": "CREATE", "payload": {"symbol": symbol, "order_side": "BUY", "spec": {kind: spec}}},
    }


def replace_body(intent_id: UUID | str, kind: str = "Limit", **spec: object) -> dict[str, object]:
    payload = {"ref_intent_id": str(intent_id), "spec": {kind: {"quantity": "12", **spec}}}
    return {"command": {"type": "REPLACE", "payload": payload}}


def cancel_body(intent_id: UUID | str) -> dict[str, object]:
    return {"command": {"type": "CANCEL", "payload": {"ref_intent_id": str(intent_id)}}}


def problem(response: httpx.Response, status: int, code: str) -> dict[str, object]:
    """The problem in a response, after checking its shape."""
    assert response.headers["content-type"] == "application/problem+json"
    body: dict[str, object] = response.json()
    assert (response.status_code, body["status"], body["code"]) == (status, status, code), body
    assert set(body) == (PROBLEM_FIELDS | {"receipt"} if code == "controls_refused" else PROBLEM_FIELDS)
    assert body["type"] == f"urn:openbell:problem:{code}"
    assert body["request_id"] == response.headers["x-request-id"]
    return body


def pointers(body: Mapping[str, object]) -> list[str]:
    errors = body["errors"]
    assert isinstance(errors, list)
    return [error["pointer"] for error in errors]
