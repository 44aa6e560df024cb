"""The operator's halt: set, listed and lifted with nothing but the database, and audited."""

import pytest

from openbell_server.adapters.postgres.connection import Pool
from openbell_server.adapters.postgres.operators.diagnostics import Diagnostics
from support.brokers.scripted_broker import Harness
from support.builders.tenant import a_limit_create, a_tenant
from support.environment.command_line import CommandLine, audited
from support.tenancy.halts import Switchboard

WHY = ("--reason", "runaway strategy", "--as", "olga")


@pytest.fixture
def operator(database: str) -> CommandLine:
    return CommandLine(database)


@pytest.fixture
async def board(pool: Pool) -> Switchboard:
    return Switchboard(Harness(pool, await a_tenant(pool)))


def where(board: Switchboard, scope: str) -> tuple[str, ...]:
    account = board.harness.tenant.account
    named = {
        "ACCOUNT": ("--account", str(account.id)),
        "ORGANIZATION": ("--organization", str(account.organization_id)),
    }
    return named.get(scope, ())


@pytest.mark.parametrize("scope", ["PLATFORM", "ORGANIZATION", "ACCOUNT"])
async def test_a_halt_shuts_doors_at_its_scope_until_it_is_lifted(
    operator: CommandLine, board: Switchboard, pool: Pool, scope: str
) -> None:
    done = await operator.read("halt", *where(board, scope), *WHY, "--yes")
    assert (done["scope"], done["status"], done["before"], done["cancel_working"]) == (scope, "HALTED", "ACTIVE", True)
    (listed,) = (await operator.read("halt", "status"))["halts"]
    assert (listed["scope"], listed["set_by"], listed["reason"]) == (scope, "OPERATOR olga", "runaway strategy")
    assert await Diagnostics(pool).halts_in_force() == {scope: 1}
    await board.harness.accept(a_limit_create())
    assert await board.harness.work() == []
    assert await board.harness.states() == [("CREATE", "SKIPPED", "HALTED")]
    await operator.read("resume", *where(board, scope), *WHY, "--yes")
    assert (await operator.read("halt", "status"))["halts"] == []
    await board.harness.working()
    entries = [entry for entry in await audited(pool) if "SWITCH" in str(entry)]
    assert len(entries) == 2


async def test_a_halt_may_let_reductions_pass_and_leave_working_orders_alone(
    operator: CommandLine, board: Switchboard
) -> None:
    done = await operator.read("halt", "--reduce-only", "--no-cancel-working", *WHY, "--yes")
    assert (done["status"], done["cancel_working"]) == ("REDUCE_ONLY", False)
    await board.sweep()
    assert [record["state"] for record in await board.records()] == ["REDUCE_ONLY"]


async def test_nothing_is_done_without_a_yes_a_reason_or_a_scope_that_is_there(
    operator: CommandLine, board: Switchboard
) -> None:
    account = board.harness.tenant.account
    both = ("--account", str(account.id), "--organization", str(account.organization_id))
    nobody = "00000000-0000-4000-8000-000000000001"
    assert "not both" in await operator.refused("halt", *both, *WHY, "--yes")
    assert "--reason takes" in await operator.refused("halt", "--yes")
    assert "There is no account" in await operator.refused("halt", "--account", nobody, *WHY, "--yes")
    assert "no such organization" in await operator.refused("halt", "--organization", nobody, *WHY, "--yes")
    assert "not halted" in await operator.refused("resume", *WHY, "--yes")
    assert (await operator.run("halt", *WHY)).exit_code == 1
    assert "No halt is in force." in await operator.say("halt", "status")
