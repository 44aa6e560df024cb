"""Users on the platform as processes."""

import asyncio
import json
from pathlib import Path

import httpx
import nats
from nats.js.errors import NotFoundError

from openbell_server.devtools.child_processes import free_port
from openbell_server.devtools.dev_issuer import DevIssuer, mint
from openbell_server.devtools.local_platform import ACME, IDENTITY_PROVIDER, LocalPlatform
from openbell_server.domain.access.principals import PrincipalKind
from support.brokers.paper_broker import until
from support.identity.workos_provider import API_KEY, workos


def test_a_deletion_that_was_asked_for_while_the_provider_was_away_is_finished_by_the_relay(tmp_path: Path) -> None:
    port = free_port()
    with DevIssuer(tmp_path, IDENTITY_PROVIDER) as issuer:
        settings = {
            "OPENBELL_ISSUERS": issuer.setting,
            "OPENBELL_WORKOS_API_KEY": API_KEY,
            "OPENBELL_WORKOS_BASE_URL": f"http://127.0.0.1:{port}",
        }
        token = mint(tmp_path, PrincipalKind.USER, "user_1", {"org_id": ACME, "role": "member"})
        with LocalPlatform(tmp_path / "logs", settings) as platform:
            asyncio.run(_delete(platform, port, {"authorization": f"Bearer {token}"}))


async def _delete(platform: LocalPlatform, port: int, headers: dict[str, str]) -> None:
    address = platform.client_environment()["OPENBELL_URL"]
    async with httpx.AsyncClient(base_url=address, timeout=60) as client:
        asked = await client.delete("/v1/users/me", headers=headers)
        assert (asked.status_code, asked.headers["content-type"]) == (503, "text/plain; charset=utf-8")
        async with workos(port) as provider:
            provider.add_member("user_1", ACME)

            async def is_gone() -> bool:
                return not provider.users

            await until(is_gone, 60)

        async def is_refused() -> bool:
            return (await client.delete("/v1/users/me", headers=headers)).text == "unauthorized"

        await until(is_refused)
    connection = await nats.connect(platform.services.nats.url)
    streams = connection.jetstream()

    async def is_told() -> bool:
        try:
            told = await streams.get_last_msg("USERS", "users.user.deleted")
        except NotFoundError:
            return False
        return bool(json.loads(told.data or b"{}")["user_id"] == "user_1")

    try:
        await until(is_told)
    finally:
        await connection.close()
