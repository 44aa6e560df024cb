"""What is done with secrets on a platform, well and badly, by callers, by operators and by accident."""

import asyncio
import base64
import contextlib
import json
import signal
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from openbell_server.adapters.vault.key_file import add_key, create_key_files
from openbell_server.devtools.child_processes import ChildFailed, free_port
from openbell_server.devtools.local_platform import ACME, LocalPlatform
from openbell_server.devtools.stack import PROCESSES
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.processes.vault import FILE
from proof.canaries import Canaries
from proof.load import clients, submit_mixed
from proof.sinks import SHOWS_KEY, RecordingTransport, Sinks
from support.brokers.paper_broker import until
from support.identity.bad_keys import joined, parts_of
from support.identity.identity_provider import MACHINES
from support.identity.loopback_issuers import bearer

SERVER = (sys.executable, "-m", "openbell_server")
CALL_SECONDS = 60.0
TROUBLE_SECONDS = 120.0
AT_ONCE = 2
JSON = {"content-type": "application/json"}
# The secret in the text of a key.
KEY_PART = slice(22, 65)
# The order of the accounts: what is planted in which.
CHANGED, WRONG, EXPIRED, MISMATCHED, REMOVED, CRASHED, AWAY, LOCKED = range(8)
ACCOUNTS = 8
# The environment of one, and its words.
Command = tuple[Mapping[str, str], tuple[str, ...]]


@dataclass
class Handling:
    """One run over a platform; every secret that it uses is a canary."""

    platform: LocalPlatform
    sinks: Sinks
    canaries: Canaries
    folder: Path
    # The whole of it, or what a gate has the time for.
    whole: bool
    # Who acts; the audit log has it.
    operator: str
    answers: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    calls: int = 0

    async def run(self) -> None:
        self.canaries.given("key of the organization", self.platform.seeded.api_key[KEY_PART])
        self.transport = RecordingTransport(self.sinks)
        address = self.platform.client_environment()["OPENBELL_URL"]
        async with httpx.AsyncClient(base_url=address, transport=self.transport, timeout=CALL_SECONDS) as self.client:
            await self._credentials()
            await self._bad_bodies()
            await self._wrong_places()
            await self._keys()
            await self._tokens()
            await self._look()
            await self._orders()
            await self._rotate()
            await asyncio.gather(self._crash_while_signing_in(), self._commands())
            await self._services_away()
            await self._look()
            if self.whole:
                await self._starts_that_fail()
        self.calls = self.transport.count

    async def _look(self) -> None:
        await self.sinks.look(self.platform, PROCESSES)

    def _path(self, account: int, below: str = "") -> str:
        return f"/v1/accounts/{self.platform.seeded.account_ids[account]}/credentials{below}"

    async def _call(
        self,
        method: str,
        path: str,
        *expected: int,
        body: object = None,
        content: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        extensions: dict[str, Any] | None = None,
    ) -> httpx.Response:
        """A call that ought to be answered so: one that is not would prove less than it seems."""
        sent = {"x-api-key": self.platform.seeded.api_key, **(headers or {})}
        if body is not None:
            content = json.dumps(body).encode()
        if content is not None:
            sent = {**JSON, **sent}
        reply = await self.client.request(method, path, content=content, headers=sent, extensions=extensions)
        self.answers[f"{method} {reply.status_code}"] += 1
        if reply.status_code not in expected:
            self.faults.append(f"{method} {path.split('?')[0][:60]}: {reply.status_code}, not {expected}: {reply.text}")
        return reply

    async def _put(self, account: int, name: str, key_id: str = "PK-plain", *expected: int) -> None:
        fields = {"key_id": key_id, "secret": self.canaries.text(name)}
        await self._call("PUT", self._path(account), *(expected or (200,)), body={"fields": fields})

    async def _verify(self, account: int, status: str, *expected: int) -> None:
        reply = await self._call("POST", self._path(account, "/verify"), *(expected or (200,)))
        if reply.status_code == 200 and reply.json()["status"] != status:
            self.faults.append(f"account {account} is {reply.json()['status']}, not {status}")

    async def _credentials(self) -> None:
        """Good ones, ones that the broker refuses, changes, removal."""
        await self._put(CHANGED, "first version")
        await self._verify(CHANGED, "VALID")
        await self._put(CHANGED, "second version")
        await self._put(CHANGED, "third version")
        await self._verify(CHANGED, "VALID")
        await self._put(WRONG, "refused by the broker", "WRONG-1")
        await self._verify(WRONG, "INVALID")
        await self._put(EXPIRED, "expired at the broker", "EXPIRED-1")
        await self._verify(EXPIRED, "EXPIRED")
        await self._put(EXPIRED, "expired since", "UNTIL-2020-01-01")
        await self._put(MISMATCHED, "of the right account", "ACCT-7")
        await self._verify(MISMATCHED, "VALID")
        await self._put(MISMATCHED, "of another account", "ACCT-8")
        await self._verify(MISMATCHED, "", 409)
        await self._put(REMOVED, "removed")
        for account in range(ACCOUNTS):
            await self._call("GET", self._path(account), 200, 404)
        await self._call("DELETE", self._path(REMOVED), 204)
        await self._verify(REMOVED, "", 404)

    async def _bad_bodies(self) -> None:
        def said(name: str, times: int = 1) -> bytes:
            return json.dumps(self.canaries.text(name) * times).encode()

        values = [
            b'{"fields": {"key_id": "PK", "secret": %b' % said("in half a body"),
            said("in UTF-16").decode().encode("utf-16"),
            b'{"fields": {"key_id": "PK", "secret": %b, "secret": "x"}}' % said("given twice"),
            said("as the whole body"),
            b'{"fields": {"key_id": "PK", "secret": %b}}' % said("too long", 60),
            b'{"fields": {"key_id": "PK", "secret": [%b]}}' % said("in a list"),
            b'{"fields": {"key_id": %b, "secret": "\\n"}}' % said("as a key id"),
            b'{"fields": {"key_id": "PK", "secret": "x"}, "expires_at": %b}' % said("as a time"),
        ]
        twice = said("as a name twice")
        names = [
            b'{"fields": {%b: "x", %b: "x"}}' % (twice, twice),
            b'{"fields": {%b: "x", "key_id": "PK", "secret": "x"}}' % said("as the name of a field"),
            b'{"fields": {"key_id": "PK", "secret": "x"}, %b: 1}' % said("as a name beside the fields"),
        ]
        for body in (*values, *names):
            await self._call("PUT", self._path(CHANGED), 400, 422, content=body)
        plain = {"content-type": "text/plain"}
        await self._call("PUT", self._path(CHANGED), 415, content=values[0], headers=plain)
        # To whoever takes other bodies, by mistake; there a refusal may repeat the name of a field, and no value.
        intents = f"/v1/accounts/{self.platform.seeded.account_ids[CHANGED]}/intents"
        for body in values:
            await self._call("POST", intents, 400, 422, content=body)

    async def _wrong_places(self) -> None:
        """Where no secret belongs, by mistake."""
        word, text = self.canaries.word, self.canaries.text
        in_path = quote(text("in the path"), safe="")
        await self._call("PUT", self._path(CHANGED, f"/{in_path}"), 404)
        await self._call("GET", f"/v1/accounts/{in_path}/credentials", 404)
        await self._call("GET", f"/{in_path}", 404)
        await self._call("GET", self._path(CHANGED, f"?secret={quote(text('in the query'), safe='')}"), 400)
        await self._call(
            "GET", self._path(CHANGED), 400, headers={"authorization": f"Basic {word('in a second header')}"}
        )
        header = word("in other headers")
        for name in ("if-match", "content-type", "x-organization-id"):
            await self._call("PUT", self._path(CHANGED), 400, 403, 412, 415, body={}, headers={name: header})

    async def _keys(self) -> None:
        """A new key, shown once, then revoked; wrong ones."""
        admin = {"authorization": bearer(org_id=ACME, role="admin")}
        body = {"name": "second", "environment": "paper", "permissions": ["intent:read"]}
        made = await self.client.post("/v1/api-keys", json=body, headers=admin, extensions={SHOWS_KEY: True})
        key = made.json()["api_key"]
        self.canaries.given("key that is revoked", key[KEY_PART])
        revoked = await self.client.delete(f"/v1/api-keys/{made.json()['id']}", headers=admin)
        await self.client.get("/v1/api-keys", headers=admin)
        self.answers[f"revoke {revoked.status_code}"] += 1
        guess = api_keys.mint(Environment.PAPER, self.canaries.random.randbytes(api_keys.ENTROPY_BYTES))[0]
        self.canaries.given("guess of a key", guess[KEY_PART])
        environment, key_id, _ = parts_of(self.platform.seeded.api_key)
        known = joined(environment, key_id, f"{self.canaries.word('wrong secret of a known key'):0<43}")
        for bad in (key, guess, known, self.canaries.word("no key")):
            await self._refused({"x-api-key": bad})
            service = {"authorization": bearer(issuer=MACHINES, org_id=None, scope="api-key:validate")}
            asked = await self.client.post("/api/v1/auth/api-key/validate", json={"api_key": bad}, headers=service)
            self.answers[f"validate {asked.status_code}"] += 1

    async def _tokens(self) -> None:
        tokens = {
            "good token": bearer(org_id=ACME, role="admin"),
            "token of a service": bearer(issuer=MACHINES, org_id=None, scope="intent:read"),
            "expired token": bearer(org_id=ACME, role="admin", exp=1_700_000_000),
            "forged token": bearer(org_id=ACME, role="admin")[:-40] + self.canaries.word("forged signature"),
        }
        for name, token in tokens.items():
            self.canaries.given(name, token.rpartition(".")[2])
            headers = {"authorization": token}
            if name == "good token":
                reply = await self.client.get("/v1/accounts", headers=headers)
                self.answers[f"good token {reply.status_code}"] += 1
                await self.client.get(f"/v1/organizations/by-provider/workos/{ACME}", headers=headers)
                await self.client.delete("/v1/users/me", headers=headers)
            else:
                await self._refused(headers)
        await self._refused({"authorization": f"Bearer {self.canaries.word('no token at all')}"})

    async def _refused(self, headers: Mapping[str, str]) -> None:
        """By REST and by gRPC."""
        for path in ("/v1/accounts", self._path(CHANGED)):
            reply = await self.client.get(path, headers=headers)
            self.answers[f"refused {reply.status_code}"] += 1
            if reply.is_success:
                self.faults.append(f"{path} let in who ought to be refused")
        environment = self.platform.client_environment()
        code = await self.sinks.call_stream(environment["OPENBELL_STREAM"], environment["OPENBELL_ACCOUNT"], headers)
        self.answers[f"refused {code}"] += 1

    async def _orders(self) -> None:
        """On accounts that are signed in, on some that are not, and on one without a credential."""
        accounts = [str(self.platform.seeded.account_ids[each]) for each in (CHANGED, REMOVED, WRONG, EXPIRED)]
        async with clients(self.platform, 1, transport_of=lambda _: self.transport) as (client,):
            for number in range(60 if self.whole else 24):
                try:
                    await submit_mixed(client, accounts[number % len(accounts)], number)
                    self.answers["orders taken"] += 1
                except Exception as error:  # noqa: BLE001 - whatever is refused is refused in words
                    self.sinks.add("HTTP replies", "client errors", repr(error))
                    self.answers["orders refused"] += 1

    async def _rotate(self) -> None:
        """A new key wraps every object under the running platform."""
        executor = self.platform.stack.environment_of("executor")
        private = Path(executor["OPENBELL_VAULT_KEY"].removeprefix(FILE))
        public = Path(self.platform.stack.environment["OPENBELL_VAULT_KEY"].removeprefix(FILE))
        if self.whole:
            await self._command(executor, 0, "vault", "add-key", "--private", str(private), "--public", str(public))
        else:
            add_key(private, public)
        for number, key in enumerate(key_material(private)):
            self.canaries.given(f"vault key {number + 1}", key)
        await self._command(executor, 0, "vault", "rotate", "--as", self.operator)
        if self.whole:
            await self._command(executor, 0, "vault", "status")

    async def _crash_while_signing_in(self) -> None:
        """The broker hangs and the executor dies in its call; one with another key follows, then one with the right."""
        stack = self.platform.stack
        stack.kill("paper", signal.SIGSTOP)
        await self._put(CRASHED, "in the hands of an executor that dies")
        await self._until_in_log("executor", "sign_in_failed", "TimeoutError")
        stack.kill("executor")
        stack.kill("paper", signal.SIGCONT)
        if self.whole:
            await self._with_another_key()
        stack.start("executor", {})
        stack.wait_ready("executor")
        await self._verify(CRASHED, "VALID")

    async def _with_another_key(self) -> None:
        other = self.folder / "other"
        other.mkdir()
        create_key_files(other / "private.json", other / "public.json")
        stack = self.platform.stack
        stack.start("executor", {"OPENBELL_VAULT_KEY": f"{FILE}{other / 'private.json'}"})
        stack.wait_ready("executor")
        await self._put(LOCKED, "that an executor cannot open")
        await self._until_in_log("executor", "sign_in_failed", "Vault")
        await self._verify(LOCKED, "", 503)
        await self._look()
        stack.stop("executor")

    async def _until_in_log(self, process: str, *words: str) -> None:
        async def is_there() -> bool:
            lines = self.platform.stack.log(process).read_text(errors="replace").splitlines()
            return any(all(word in line for word in words) for line in lines)

        await until(is_there, TROUBLE_SECONDS)

    async def _services_away(self) -> None:
        services = self.platform.services
        services.nats.kill()
        await self._put(AWAY, "while NATS is away")
        services.nats.start()
        services.postgres.kill()
        await self._put(AWAY, "while PostgreSQL is away", "PK-plain", 503)
        await self._look()
        services.postgres.start()
        await until(self._is_healthy, TROUBLE_SECONDS)
        await self._put(AWAY, "after all came back", "PK-plain", 200, 503)

    async def _is_healthy(self) -> bool:
        return (await self.client.get("/healthz")).status_code == 200

    async def _starts_that_fail(self) -> None:
        """Processes with settings that cannot be used, each with a secret in it."""
        word, text = self.canaries.word, self.canaries.text
        nobody = f"127.0.0.1:{free_port()}"
        no_key = self.folder / "no-key-file.json"
        no_key.write_text(json.dumps({"primaryKeyId": 1, "key": [{"keyData": {"value": text("in a bad key file")}}]}))
        password = quote(text("password of a database that is away"), safe="")
        bad = {
            "api-2": {"OPENBELL_VAULT_KEY": f"{FILE}{no_key}"},
            "relay-2": {"OPENBELL_DATABASE_URL": f"postgresql://openbell:{password}@{nobody}/openbell"},
            "api-3": {"OPENBELL_ISSUERS": text("in settings that are not JSON")},
            "relay-3": {"OPENBELL_DATABASE_URL": f"postgresql://openbell:{word('in a bad address')}@[::1/openbell"},
            "stream-2": {"OPENBELL_REDIS_URL": f"http://:{word('in a bad address of Redis')}@{nobody}"},
            "api-4": {"OPENBELL_API_PORT": word("in the place of a number")},
            "relay-4": {"OPENBELL_NATS_URL": f"nats://u:{word('in a bad address of NATS')}@{nobody}:x"},
            "relay-5": {"OPENBELL_OTLP_URL": f"http://u:{word('in the address of a collector that is away')}@{nobody}"},
        }
        stack = self.platform.stack
        for name, settings in bad.items():
            stack.start(name, settings)
        for name in bad:
            with contextlib.suppress(ChildFailed):
                # Some live on without what is away.
                stack.wait_ready(name)
            self.answers[f"{name} {'lived' if stack.is_running(name) else stack.returncode(name)}"] += 1
            stack.kill(name)
            await self._command(stack.environment_of(name), None, "doctor", "--for", name.partition("-")[0])

    async def _commands(self) -> None:
        owner = {**self.platform.stack.environment_of("api"), "OPENBELL_DATABASE_URL": self.platform.owner_url}
        organization = str(self.platform.seeded.organization_id)
        processes = PROCESSES if self.whole else ("api",)
        doctors: list[Command] = [
            (self.platform.stack.environment_of(each), ("doctor", "--for", each)) for each in processes
        ]
        looks: list[Command] = [(owner, ("audit", "list", "--json"))]
        if self.whole:
            looks += [(owner, ("outbox", "show", queue, "1", "--json")) for queue in ("accounts", "intents", "users")]
            looks += [(owner, ("outbox",)), (owner, ("outbox", "list", "--status", "all", "--json"))]
            looks += [(owner, ("keys", "list", organization)), (owner, ("organizations", "list"))]
            looks += [(owner, ("backup", "check"))]
        every = [*doctors, *looks]
        for begin in range(0, len(every), AT_ONCE):
            some = every[begin : begin + AT_ONCE]
            await asyncio.gather(*(self._command(environment, None, *words) for environment, words in some))

    async def _command(self, environment: Mapping[str, str], status: int | None, *words: str) -> None:
        ended = await self.sinks.command(environment, *SERVER, *words)
        self.answers[f"{' '.join(words[:2])} {ended}"] += 1
        if status not in {None, ended}:
            self.faults.append(f"{' '.join(words)} ended with {ended}")


def key_material(private: Path) -> list[bytes]:
    """The private halves in a key file: the last 32 bytes of each key, behind the tag and the length of their field."""
    keys = [base64.b64decode(each["keyData"]["value"]) for each in json.loads(private.read_text())["key"]]
    assert all(key[-34:-32] == b"\x1a\x20" for key in keys), "this is not how Tink writes an HPKE key"
    return [key[-32:] for key in keys]
