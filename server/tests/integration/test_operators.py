"""The operator's commands: from an empty database to an accepted intent, each change with its audit row."""

import asyncio
import getpass
import json
import sys
from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

import asyncpg
import httpx
import pytest

from openbell_server.adapters.postgres.connection import Pool, open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.adapters.postgres.schema import OLDEST
from openbell_server.application.access.authenticate import CACHE_SECONDS
from openbell_server.application.ports.accept_step import AcceptStatus
from openbell_server.devtools.local_services import LocalServices
from openbell_server.devtools.stack import LOGINS
from openbell_server.domain.controls.rules import PLATFORM_ID
from support.brokers.paper_broker import until
from support.builders.tenant import Tenant, a_tenant, accept, new_id
from support.environment.command_line import ACCOUNT_OPTIONS, KEY_OPTIONS, CommandLine, audited, last_change
from support.environment.logins import API_LOGIN, allow_every_login
from support.identity.identity_provider import good_token
from support.rest.rest_api import RestApi, cancel_body, create_body, intents_of, problem, rest_api


@pytest.fixture
def operator(database: str) -> CommandLine:
    return CommandLine(database)


@pytest.fixture
async def api(login_pool: Pool) -> AsyncIterator[RestApi]:
    async with rest_api(login_pool) as opened:
        yield opened


async def test_commands_alone_lead_from_an_empty_database_to_an_accepted_intent(
    services: LocalServices, empty: str
) -> None:
    operator = CommandLine(empty)
    await operator.say("migrate", "--logins", LOGINS)
    async with await open_pool(services.postgres.url("openbell_empty", API_LOGIN)) as pool, rest_api(pool) as api:
        tenant = await operator.tenant(pool)
        answer = await api.submit(tenant, create_body())
        assert answer.status_code == 202, answer.text
    async with await open_pool(empty) as pool:
        assert [entry[0] for entry in await audited(pool)] == ["organizations create", "accounts create", "keys create"]


async def test_a_new_organization_may_use_controls_unless_the_operator_sells_plans(
    operator: CommandLine, database: str, pool: Pool, api: RestApi
) -> None:
    tenant = await operator.tenant(pool)
    rule = f"/v1/controls/rules/QTY_MAX?scope=ACCOUNT&account_id={tenant.account.id}"
    limit = {"mode": "HARD", "parameters": {"quantity": "5"}, "reason": "fat fingers"}
    answer = await api.client.put(rule, json=limit, headers={"x-api-key": tenant.key})
    assert answer.status_code == 200, answer.text
    seller = CommandLine(database, {"OPENBELL_SELLS_PLANS": "true"})
    assert (await seller.change("organizations", "create", "Bond"))["entitlements"] == []


async def test_no_setting_lets_a_new_organization_trade_live(database: str) -> None:
    for value in ("true", "false"):
        created = await CommandLine(database, {"OPENBELL_SELLS_PLANS": value}).change("organizations", "create", "Bond")
        assert "trading_live" not in created["entitlements"]


async def test_an_organization_is_created_listed_and_audited(operator: CommandLine, pool: Pool) -> None:
    started = await pool.fetchval("select clock_timestamp()")
    ours = await operator.change("organizations", "create", "Acme [red]")
    theirs = await operator.change("organizations", "create", "Bond", "--external-id", "org_1")
    assert (ours["provider"], ours["external_id"]) == ("openbell", ours["organization_id"])
    assert (theirs["provider"], theirs["external_id"]) == ("workos", "org_1")
    assert (await operator.read("organizations", "list"))["organizations"] == [ours, theirs]
    table = await operator.say("organizations", "list")
    assert "Acme [red]" in table
    assert ours["organization_id"] in table
    created = [("organizations create", row["organization_id"], None, row) for row in (ours, theirs)]
    assert await audited(pool) == created
    rows = await pool.fetch("select audit_id, occurred_at, clock_timestamp() as now from audit_log")
    assert all(row["audit_id"].version == 7 and started <= row["occurred_at"] <= row["now"] for row in rows)


async def test_an_external_id_that_is_taken_is_refused_and_leaves_no_trace(operator: CommandLine, pool: Pool) -> None:
    await operator.change("organizations", "create", "Acme", "--external-id", "org_1")
    said = await operator.refused("organizations", "create", "Bond", "--external-id", "org_1")
    assert "workos has another organization with the external id org_1" in said
    await operator.change("organizations", "create", "Bond", "--external-id", "org_1", "--provider", "okta")
    assert len(await audited(pool)) == 2


async def test_entitlements_are_given_and_taken(operator: CommandLine, pool: Pool) -> None:
    organization = await operator.organization()
    epoch = "select control_epoch from organizations"
    first = await pool.fetchval(epoch)
    both = ["controls_premium", "trading_live"]
    after = await operator.change("organizations", "entitle", organization, *reversed(both))
    assert after["entitlements"] == both
    change = {"entitlements": (["controls_premium"], both)}
    assert await last_change(pool) == ("organizations entitle", organization, change)
    assert await pool.fetchval(epoch) == first + 1
    after = await operator.change("organizations", "revoke-entitlement", organization, *both)
    assert after["entitlements"] == []
    change = {"entitlements": (both, [])}
    assert await last_change(pool) == ("organizations revoke-entitlement", organization, change)


async def test_an_organization_is_marked_as_the_operator_s_own(operator: CommandLine, pool: Pool) -> None:
    organization = await operator.organization()
    assert (await operator.change("organizations", "internal", organization))["internal"]
    assert await last_change(pool) == ("organizations internal", organization, {"internal": (False, True)})
    assert not (await operator.change("organizations", "internal", organization, "--no-internal"))["internal"]
    assert await last_change(pool) == ("organizations internal", organization, {"internal": (True, False)})


async def test_an_account_opened_by_command_is_told_of(operator: CommandLine, pool: Pool) -> None:
    organization = await operator.organization()
    account = await operator.change("accounts", "create", organization, *ACCOUNT_OPTIONS)
    (row,) = await pool.fetch("select event_type, status, payload from account_outbox")
    told = json.loads(row["payload"])
    assert (row["event_type"], row["status"], told["version"]) == ("account.created", "pending", 1)
    assert (told["account_id"], told["organization_id"]) == (account["account_id"], organization)
    assert {"name", "broker", "environment"} <= set(told["changed"])
    assert (await audited(pool))[-1] == ("accounts create", account["account_id"], None, account)


async def test_what_changes_nothing_is_not_audited(operator: CommandLine, pool: Pool) -> None:
    organization = await operator.organization()
    key = (await operator.change("keys", "create", organization, *KEY_OPTIONS))["key_id"]
    await operator.change("organizations", "enable", organization)
    await operator.change("organizations", "revoke-entitlement", organization, "trading_live")
    await operator.change("organizations", "internal", organization, "--no-internal")
    await operator.change("keys", "enable", key)
    assert len(await audited(pool)) == 2
    revoked = await operator.change("keys", "revoke", key)
    assert await operator.change("keys", "revoke", key) == revoked
    assert len(await audited(pool)) == 3


async def test_a_key_is_shown_once_and_stored_nowhere(operator: CommandLine, pool: Pool, owner: Any) -> None:
    organization = await operator.organization()
    made = await operator.change(
        "keys", "create", organization, *KEY_OPTIONS, "--name", "desk", "--expires", "2999-01-31"
    )
    text = made.pop("key")
    assert (made["name"], made["expires_at"]) == ("desk", "2999-01-31T00:00:00+00:00")
    assert (await operator.read("keys", "list", organization))["keys"] == [made]
    said = await operator.say("keys", "create", organization, *KEY_OPTIONS, "--as", "olga")
    shown = next(line for line in said.splitlines() if line.startswith("ob_paper_"))
    assert (await audited(pool))[1] == ("keys create", made["api_key_id"], None, made)
    tables = await owner.fetch(
        "select table_name from information_schema.tables where table_schema = 'openbell' and table_type = 'BASE TABLE'"
    )
    for (table,) in tables:
        stored = await owner.fetchval(f"select coalesce(string_agg(t::text, ''), '') from {table} t")
        for key in (text, shown):
            assert key.split("_")[4] not in stored, table
    log = await pool.fetchval("select string_agg(after, '') from audit_log")
    assert "secret" not in log


async def refusal(api: RestApi, tenant: Tenant) -> httpx.Response:
    """The answer once it is another than 202, which a change reaches when the cached key is old."""
    answers: list[httpx.Response] = []

    async def is_refused() -> bool:
        answers.append(await api.submit(tenant, create_body()))
        return answers[-1].status_code != 202

    await until(is_refused)
    return answers[-1]


async def test_a_disabled_key_is_refused_and_an_enabled_one_accepted_again(
    operator: CommandLine, api: RestApi, pool: Pool
) -> None:
    tenant = await operator.tenant(pool)
    key, object_id = tenant.key.split("_")[3], tenant.principal.id
    assert (await api.submit(tenant, create_body())).status_code == 202
    await operator.change("keys", "disable", key)
    problem(await refusal(api, tenant), 401, "key_disabled")
    assert await last_change(pool) == ("keys disable", object_id, {"disabled": (False, True)})
    await operator.change("keys", "enable", key)
    assert await last_change(pool) == ("keys enable", object_id, {"disabled": (True, False)})

    async def is_accepted() -> bool:
        return (await api.submit(tenant, create_body())).status_code == 202

    await until(is_accepted)
    assert CACHE_SECONDS < 1, "a change would act later than we say"


async def test_a_revoked_key_is_refused_for_good(operator: CommandLine, api: RestApi, pool: Pool) -> None:
    tenant = await operator.tenant(pool)
    key = tenant.key.split("_")[3]
    assert (await api.submit(tenant, create_body())).status_code == 202
    revoked_at = (await operator.change("keys", "revoke", key))["revoked_at"]
    problem(await refusal(api, tenant), 401, "unauthenticated")
    assert await last_change(pool) == ("keys revoke", tenant.principal.id, {"revoked_at": (None, revoked_at)})
    for command in ("enable", "disable"):
        assert "create another" in await operator.refused("keys", command, key)
    problem(await api.submit(tenant, create_body()), 401, "unauthenticated")


async def test_a_disabled_organization_can_only_cancel_at_once(operator: CommandLine, api: RestApi, pool: Pool) -> None:
    tenant = await operator.tenant(pool)
    organization = str(tenant.account.organization_id)
    resting = (await api.submit(tenant, create_body("Limit", price="1"))).json()
    await operator.change("organizations", "disable", organization)
    assert await last_change(pool) == ("organizations disable", organization, {"disabled": (False, True)})
    # One that was evaluated before is not written either.
    (late,) = await accept(pool, tenant.submission())
    assert late.status is AcceptStatus.STALE_CONTROLS
    problem(await api.submit(tenant, create_body()), 409, "organization_disabled")
    assert (await api.submit(tenant, cancel_body(resting["intent_id"]))).status_code == 202
    await operator.change("organizations", "enable", organization)
    assert await last_change(pool) == ("organizations enable", organization, {"disabled": (True, False)})
    assert (await api.submit(tenant, create_body())).status_code == 202


NOBODY = str(new_id())
MISTAKES = [
    (["organizations", "disable", NOBODY], f"There is no organization {NOBODY}"),
    (["accounts", "create", NOBODY, *ACCOUNT_OPTIONS], f"There is no organization {NOBODY}"),
    (["keys", "create", NOBODY, *KEY_OPTIONS], f"There is no organization {NOBODY}"),
    (["keys", "list", NOBODY], f"There is no organization {NOBODY}"),
    (["keys", "disable", "000000000000"], "There is no key with this id"),
    (["organizations", "create", " "], "NAME takes 1 to 128"),
    (["organizations", "create", "A\x1b[2J"], "NAME takes 1 to 128"),
    (["organizations", "create", "Acme", "--provider", "okta"], "--external-id ID"),
    (["organizations", "create", "Acme", "--as", "\t"], "--as takes 1 to 128"),
    (["organizations", "entitle", NOBODY, "trading_love"], "choose from controls_premium, trading_live"),
    (
        ["keys", "create", NOBODY, "--environment", "paper", "--permission", "all"],
        "choose from account:edit, account:read",
    ),
    (["keys", "create", NOBODY, *KEY_OPTIONS, "--expires", "soon"], "--expires takes a time"),
    (["accounts", "create", NOBODY, *ACCOUNT_OPTIONS, "--broker", "acme"], "There is no broker called acme"),
]


async def test_every_mistake_gets_a_sentence_and_leaves_no_trace(operator: CommandLine, pool: Pool) -> None:
    missed = [(words, said) for words, says in MISTAKES if says not in (said := await operator.refused(*words))]
    assert missed == []
    assert await audited(pool) == []
    assert (await operator.read("organizations", "list"))["organizations"] == []


async def test_a_key_that_would_be_over_already_is_not_made(operator: CommandLine, pool: Pool) -> None:
    organization = await operator.organization()
    said = await operator.refused("keys", "create", organization, *KEY_OPTIONS, "--expires", "2020-01-31")
    assert "choose a later time" in said
    assert await pool.fetchval("select count(*) from api_keys") == 0


async def test_whoever_does_not_say_who_acts_is_the_system_s_user(operator: CommandLine, pool: Pool) -> None:
    await operator.say("organizations", "create", "Acme")
    assert await pool.fetchval("select principal_id from audit_log") == getpass.getuser()


@pytest.mark.parametrize("change", ["update audit_log set after = ''", "delete from audit_log", "truncate audit_log"])
async def test_the_audit_log_is_append_only(pool: Pool, change: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match="audit_log is append-only"):
        await pool.execute(change)


async def test_commands_ask_for_the_newest_schema(empty: str) -> None:
    operator = CommandLine(empty)
    assert "run `openbell-server migrate`" in await operator.refused("organizations", "list")
    await asyncio.to_thread(migrate, empty, OLDEST)
    assert "run `openbell-server migrate`" in await operator.refused("organizations", "list")
    await asyncio.to_thread(migrate, empty)
    assert (await operator.read("organizations", "list"))["organizations"] == []


async def test_the_processes_login_cannot_use_the_commands(services: LocalServices, database: str) -> None:
    await asyncio.to_thread(allow_every_login, database)
    operator = CommandLine(services.postgres.url("openbell_test", API_LOGIN))
    assert "This login may not act as an operator" in await operator.refused("organizations", "list")


async def test_a_database_that_does_not_answer_is_a_sentence_and_exit_code_2(tmp_path: Any) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "openbell_server", "organizations", "list"),
        env={"OPENBELL_DATABASE_URL": f"postgresql://x:secret@/openbell?host={tmp_path}"},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 2
    assert said.decode().startswith("The database did not answer (")
    assert len(said.decode().splitlines()) == 1
    assert "secret" not in said.decode()


def token_of(organization: str) -> dict[str, str]:
    return {"authorization": f"Bearer {good_token(org_id=f'org_{UUID(organization).hex}')}"}


async def test_a_disabled_user_is_refused_within_a_second_and_let_in_again_when_enabled(
    operator: CommandLine, pool: Pool, api: RestApi
) -> None:
    tenant = await a_tenant(pool)
    organization = str(tenant.account.organization_id)

    async def status() -> int:
        return (await api.client.get(intents_of(tenant), headers=token_of(organization))).status_code

    async def refused() -> bool:
        return await status() == 401

    async def accepted() -> bool:
        return await status() == 200

    assert await accepted()
    named = ("dev", "auth|7", "--organization", organization)
    disabled = await operator.change("users", "disable", *named, "--reason", "left us")
    assert (disabled["disabled"], disabled["reason"]) == (True, "left us")
    await until(refused, 60)
    assert await last_change(pool) == (
        "users disable",
        "auth|7",
        {"disabled": (False, True), "reason": (None, "left us"), "denied_at": (None, disabled["denied_at"])},
    )
    assert await operator.change("users", "disable", *named, "--reason", "again") == disabled
    enabled = await operator.change("users", "enable", *named)
    assert (enabled["disabled"], enabled["reason"]) == (False, None)
    await until(accepted, 60)
    assert [entry[0] for entry in await audited(pool)] == ["users disable", "users enable"]


async def test_a_user_of_no_known_organization_is_disabled_as_well(operator: CommandLine, pool: Pool) -> None:
    assert (await operator.change("users", "disable", "dev", "auth|9"))["reason"] == "disabled"
    assert await pool.fetchval("select subject from denied_users") == "auth|9"
    assert "auth|9" in await operator.say("users", "enable", "dev", "auth|9")
    assert await pool.fetchval("select count(*) from denied_users") == 0
    assert {row["organization_id"] for row in await pool.fetch("select * from audit_log")} == {PLATFORM_ID}
    assert "no organization" in await operator.refused("users", "disable", "dev", "a", "--organization", str(new_id()))
    assert await pool.fetchval("select count(*) from denied_users") == 0
