"""Makes the typical mistakes at the REST application, judges the answers, and writes the page that shows them."""

import json
from dataclasses import dataclass
from typing import Any

import httpx

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.domain.access.accounts import CONTROLS_PREMIUM, Environment
from openbell_server.domain.access.principals import INTENT_READ
from support.builders.tenant import Tenant, a_key, a_limit_create, a_tenant, accept, an_account, new_id
from support.identity.identity_provider import MACHINES, good_token
from support.rest.rest_api import RestApi, cancel_body, create_body, intents_of
from support.rest.typical_caller_mistakes import ACCOUNTS, CALLERS, KEYS
from support.rest.typical_mistakes import BODIES, CONTROLS, LISTS, STATES, Mistake

TOO_MUCH = json.dumps({"client_reference_id": "x" * 70_000})
GROUPS = {
    "Callers": CALLERS,
    "Bodies": BODIES,
    "States that prevent a command": STATES,
    "Lists and paths": LISTS,
    "Controls": CONTROLS,
    "API keys": KEYS,
    "Accounts": ACCOUNTS,
}
INTRODUCTION = """# Typical mistakes

After this page you can recognize a mistake by its response and correct the request. Each response below was received in
a test run. [Errors](errors.md) lists all codes.

1. Search this page for the `code` of your response, and compare the request above it with yours.
2. Read `errors`: `pointer` names the field, and `message` describes what would be accepted.
3. Follow `remedy`, and send the request again. A refused request does not use up its `Idempotency-Key`.

The result is a request that is accepted, or a refusal by a rule with its receipt.
"""


@dataclass(frozen=True, slots=True)
class Made:
    """A mistake and what came of it."""

    mistake: Mistake
    answer: httpx.Response

    @property
    def faults(self) -> list[str]:
        """What the answer fails to tell."""
        expected, told = self.mistake, self.answer.json()
        pointers = [error["pointer"] for error in told["errors"]]
        words = json.dumps(told, ensure_ascii=False).replace('\\\\"', '"').replace('\\"', '"')
        faults = [f"does not say {text!r}" for text in expected.says if text not in words]
        if (self.answer.status_code, told["code"]) != (expected.status, expected.code):
            faults.append(f"{self.answer.status_code} {told['code']} instead of {expected.status} {expected.code}")
        if pointers != ([] if expected.pointer is None else [expected.pointer]):
            faults.append(f"points at {pointers} instead of {expected.pointer}")
        return [f"{expected.what}: {fault}: {self.answer.text}" for fault in faults]


async def made_mistakes(api: RestApi, pool: Pool) -> tuple[list[Made], dict[str, str]]:
    """Every mistake, made once, with what stood for the names in braces."""
    world = await _world(api, pool)
    return [Made(mistake, await _make(api, mistake, world)) for group in GROUPS.values() for mistake in group], world


async def _make(api: RestApi, mistake: Mistake, world: dict[str, str]) -> httpx.Response:
    filled: Any = json.loads(_fill(json.dumps([mistake.path, mistake.headers]), world))
    path, headers = filled
    if mistake.body is None:
        content = b""
    elif isinstance(mistake.body, str):
        content = _fill(mistake.body, world).encode()
    else:
        content = _fill(json.dumps(mistake.body), world).encode()
    typed = {"content-type": "application/json"} if content else {}
    return await api.client.request(mistake.method, path, headers={**typed, **headers}, content=content)


def _fill(text: str, world: dict[str, str]) -> str:
    for name, value in world.items():
        text = text.replace(f"{{{name}}}", value)
    return text


async def _world(api: RestApi, pool: Pool) -> dict[str, str]:
    tenant, foreign = await a_tenant(pool), await a_tenant(pool)
    organization = tenant.account.organization_id
    live = await an_account(pool, organization, Environment.LIVE)
    disabled = await an_account(pool, organization)
    plain = await a_tenant(pool, entitlements=frozenset())
    _, live_key = await a_key(pool, organization, Environment.LIVE)
    _, reading = await a_key(pool, organization, permissions=frozenset({INTENT_READ}))
    _, off = await a_key(pool, organization)
    await pool.execute("update accounts set disabled = true where account_id = $1", disabled.id)
    await pool.execute("update api_keys set disabled = true where key_id = $1", off.split("_")[3])
    await pool.execute(
        "update organizations set entitlements = $2 where organization_id = $1", organization, [CONTROLS_PREMIUM]
    )
    return {
        "key": tenant.key,
        "mistyped_key": tenant.key[:-1] + ("0" if tenant.key[-1] != "0" else "1"),
        "disabled_key": off,
        "reading_key": reading,
        "live_key": live_key,
        "plain_key": plain.key,
        "user_token": good_token(org_id=f"org_{organization.hex}", role="member"),
        "admin_token": good_token(org_id=f"org_{organization.hex}", role="admin"),
        "key_id": tenant.principal.id,
        "service_token": good_token("EdDSA", MACHINES, scope="intent:read", org_id=None),
        "scopeless_token": good_token("EdDSA", MACHINES, scope="openid", org_id=None),
        "organization": str(organization),
        "foreign_organization": str(foreign.account.organization_id),
        "account": str(tenant.account.id),
        "foreign_account": str(foreign.account.id),
        "live_account": str(live.id),
        "disabled_account": str(disabled.id),
        "plain_account": str(plain.account.id),
        "missing_intent": str(new_id()),
        "too_much": TOO_MUCH,
        **await _intents(api, pool, tenant),
    }


async def _intents(api: RestApi, pool: Pool, tenant: Tenant) -> dict[str, str]:
    """One that works, one that has ended, a key that was used, a cursor, and a symbol that is switched off."""
    working, closed = await accept(pool, tenant.submission(a_limit_create()), tenant.submission())
    await pool.execute(
        "update orders set standing = 'CLOSED', close_reason = 'FILLED', pending = 'NONE' where order_id = $1",
        closed.intent_id,
    )
    assert (await api.submit(tenant, create_body(), key="used-before")).status_code == 202
    assert (await api.submit(tenant, cancel_body(closed.intent_id))).status_code == 409
    switched = await api.client.put(
        f"/v1/controls/accounts/{tenant.account.id}/symbols/MSFT",
        json={"manually_disabled": True, "manual_reason": "earnings tonight"},
        headers={"x-api-key": tenant.key},
    )
    assert switched.status_code == 200, switched.text
    page = (await api.client.get(intents_of(tenant), headers={"x-api-key": tenant.key})).json()
    return {
        "working_intent": str(working.intent_id),
        "closed_intent": str(closed.intent_id),
        "cursor": page["last_cursor"],
    }


def mistakes_page(made: list[Made], world: dict[str, str]) -> str:
    """The page; what differs from run to run shows as its name in braces."""
    by_mistake = {id(each.mistake): each for each in made}
    parts = [INTRODUCTION]
    for title, group in GROUPS.items():
        parts.append(f"\n## {title}\n")
        parts += [_shown(by_mistake[id(mistake)], world) for mistake in group]
    return "".join(parts)


def _shown(made: Made, world: dict[str, str]) -> str:
    mistake, told = made.mistake, made.answer.json()
    body = mistake.body if isinstance(mistake.body, str) else json.dumps(mistake.body)
    lines = [f"{mistake.method} {mistake.path}", *(f"{name}: {value}" for name, value in mistake.headers.items())]
    sent = [] if mistake.body is None else ["", body]
    answer = {name: told[name] for name in ("code", "detail", "remedy")}
    if told["errors"]:
        answer["errors"] = told["errors"]
    if "receipt" in told:
        answer["receipt"] = {name: told["receipt"][name] for name in ("verdict", "command", "rules")}
    text = json.dumps(answer, indent=1, ensure_ascii=False)
    for name, value in world.items():
        text = text.replace(value, f"{{{name}}}")
    request = "\n".join([*lines, *sent])
    return f"\n### {mistake.what}\n\n```text\n{request}\n```\n\n{made.answer.status_code}:\n\n```json\n{text}\n```\n"
