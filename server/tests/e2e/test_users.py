"""Users and service accounts on the platform as processes."""

import asyncio
import json
import sys
from pathlib import Path

import httpx
import nats
from nats.js.errors import NotFoundError

from front_door import run, running_dev
from openbell_server.domain.principals import PrincipalKind
from openbell_server.processes.children import free_port
from openbell_server.processes.dev_issuer import DevIssuer, mint
from openbell_server.processes.local_platform import ACME, IDENTITY_PROVIDER, OPERATIONS, LocalPlatform
from paper_broker import until
from workos_provider import API_KEY, workos

SERVER = [sys.executable, "-m", "openbell_server"]


def test_what_dev_prints_leads_to_tokens_and_a_doctor_that_work_and_no_secret_is_left_after_ctrl_c(
    tmp_path: Path,
) -> None:
    with running_dev(tmp_path, [*SERVER, "dev"]) as dev:
        assert f"tokens mint --user you --organization {ACME} --role admin" in (tmp_path / "dev.out").read_text()

        def bearer(*words: str) -> dict[str, str]:
            return {"authorization": f"Bearer {run([*SERVER, 'tokens', 'mint', *words], tmp_path, 30).strip()}"}

        user = bearer("--user", "you", "--organization", ACME, "--role", "admin")
        operator = bearer("--user", "olga", "--organization", OPERATIONS, "--role", "admin")
        service = bearer("--service", "reporter", "--scope", "intent:read")
        with httpx.Client(base_url=dev.environment["OPENBELL_URL"], timeout=20) as client:
            found = client.get(f"/v1/organizations/by-provider/{IDENTITY_PROVIDER}/{ACME}", headers=user)
            assert found.json()["name"] == "Acme Trading"
            intents = f"/v1/accounts/{dev.environment['OPENBELL_ACCOUNT']}/intents"
            assert client.get(intents, headers=user).status_code == 200
            named = service | {"x-organization-id": found.json()["id"]}
            assert client.get(intents, headers=named).status_code == 200
            health = "/v1/accounts/outbox/health"
            assert client.get(health, headers=operator).json()["entries"] == []
            assert [client.get(health, headers=each).status_code for each in (user, service)] == [403, 403]
            assert client.delete("/v1/users/me", headers=user).status_code == 503
        healthy = run(["bash", "-euc", f". .openbell/server.env; exec {' '.join(SERVER)} doctor"], tmp_path, 60)
        assert healthy.splitlines()[-1].endswith(" ok."), healthy
        for file, command in (
            ("executor", "doctor --for executor"),
            ("executor", "vault status"),
            ("operator", "outbox"),
        ):
            run(["bash", "-euc", f". .openbell/{file}.env; exec {' '.join(SERVER)} {command}"], tmp_path, 60)
        dev.interrupt()
    assert not [*(tmp_path / ".openbell").glob("*issuer*"), *(tmp_path / ".openbell").glob("*.env")]


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
    async with httpx.AsyncClient(base_url=address, timeout=20) as client:
        asked = await client.delete("/v1/users/me", headers=headers)
        assert (asked.status_code, asked.headers["content-type"]) == (503, "text/plain; charset=utf-8")
        async with workos(port) as provider:
            provider.add_member("user_1", ACME)

            async def is_gone() -> bool:
                return not provider.users

            await until(is_gone, 30)

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
