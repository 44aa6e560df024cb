"""The operator's commands about the platform's rules, and about controls of paper accounts."""

from datetime import timedelta

import pytest

from openbell_server.adapters.postgres.connection import Pool
from support.builders.tenant import a_tenant
from support.environment.command_line import CommandLine, last_change


@pytest.fixture
def operator(database: str) -> CommandLine:
    return CommandLine(database)


async def epochs(pool: Pool) -> list[int]:
    return [row[0] for row in await pool.fetch("select control_epoch from organizations order by organization_id")]


async def test_a_rule_of_the_platform_is_set_listed_and_removed_and_begins_every_epoch(
    operator: CommandLine, pool: Pool
) -> None:
    await a_tenant(pool)
    await a_tenant(pool)
    before = await epochs(pool)
    rule = await operator.change("controls", "set", "QTY_MAX", "--quantity", "500", "--reason", "fat fingers")
    assert (rule["code"], rule["in_force"], rule["version"]) == ("QTY_MAX", 'HARD {"quantity": "500"}', 1)
    assert (rule["by"], rule["reason"]) == ("OPERATOR olga", "fat fingers")
    assert await operator.read("controls", "list") == {"rules": [rule]}
    assert "fat fingers" in await operator.say("controls", "list")
    await operator.change("controls", "remove", "QTY_MAX", "--reason", "over", "--if-version", "1")
    assert await operator.read("controls", "list") == {"rules": []}
    assert await epochs(pool) == [epoch + 2 for epoch in before]
    changes = (await operator.read("controls", "history", "QTY_MAX"))["changes"]
    assert [(change["version"], change["after"], change["reason"]) for change in changes] == [
        (2, "removed", "over"),
        (1, 'HARD {"quantity": "500"}', "fat fingers"),
    ]
    assert "removed" in await operator.say("controls", "history", "QTY_MAX")


async def test_a_rule_for_a_time_stands_beside_the_one_for_good(operator: CommandLine, pool: Pool) -> None:
    await operator.change("controls", "set", "QTY_MAX", '{"quantity": "5"}', "--reason", "r")
    until = (await pool.fetchval("select clock_timestamp()") + timedelta(hours=1)).isoformat()
    options = ("--reason", "r", "--mode", "shadow", "--on-missing", "deny", "--expires-at", until)
    rule = await operator.change("controls", "set", "QTY_MAX", '{"quantity": "9"}', *options)
    assert (rule["in_force"], rule["until"]) == ('SHADOW {"quantity": "9"}, DENY on missing', until)
    assert rule["otherwise"] == 'HARD {"quantity": "5"}'


async def test_the_platform_is_halted_and_let_go_on(operator: CommandLine) -> None:
    halted = await operator.change("controls", "set", "SWITCH", "--status", "halted", "--reason", "an incident")
    assert halted["in_force"] == 'HARD {"status": "HALTED"}'
    await operator.change("controls", "set", "SWITCH", '{"status": "ACTIVE"}', "--reason", "over", "--if-version", "1")
    assert len((await operator.read("controls", "history", "SWITCH"))["changes"]) == 2


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("set", "QTY_MAX", "500", "--reason", "r"), "Write the parameters as options"),
        (("set", "QTY_MAX", "--value", "5", "--reason", "r"), "QTY_MAX has no parameter --value; it has: --quantity."),
        (("set", "QTY_MAX", "--quantity", "-5", "--reason", "r"), "Nothing was changed: /parameters/quantity"),
        (("set", "SWITCH", "--status", "OFF", "--reason", "r"), "Nothing was changed"),
        (("set", "QTY_MAX", "{}", "--reason", "r"), "Nothing was changed: /parameters must be"),
        (("set", "NO_SUCH", "{}", "--reason", "r"), "must be one of"),
        (("set", "SYMBOL_DISABLED", "{}", "--reason", "r"), "must be one of"),
        (("set", "SWITCH", '{"status": "OFF"}', "--reason", "r"), "Nothing was changed"),
        (
            ("set", "SWITCH", '{"status": "HALTED"}', "--reason", "r", "--mode", "shadow"),
            "has no expiry and is always hard",
        ),
        (("set", "QTY_MAX", '{"quantity": "5"}', "--reason", ""), "printable characters"),
        (("set", "QTY_MAX", '{"quantity": "5"}', "--reason", "r", "--mode", "soft"), "There is no mode called SOFT"),
        (("set", "QTY_MAX", '{"quantity": "5"}', "--reason", "r", "--expires-at", "noon"), "a time with an offset"),
        (
            ("set", "QTY_MAX", '{"quantity": "5"}', "--reason", "r", "--expires-at", "2020-01-01T00:00:00Z"),
            "expires_at must be later than now",
        ),
        (("set", "QTY_MAX", '{"quantity": "5"}', "--reason", "r", "--if-version", "3"), "the rule is not set"),
        (("remove", "QTY_MAX", "--reason", "r"), "no rule QTY_MAX is set here"),
    ],
)
async def test_what_cannot_be_set_is_refused_with_a_sentence(
    operator: CommandLine, pool: Pool, words: tuple[str, ...], says: str
) -> None:
    assert says in await operator.refused("controls", *words)
    assert await pool.fetchval("select count(*) from control_changes") == 0


async def test_paper_accounts_are_only_watched_or_held_to_the_rules_and_it_is_audited(
    operator: CommandLine, pool: Pool
) -> None:
    organization = await operator.organization()
    first = (await epochs(pool))[0]
    changed = await operator.change("organizations", "enforce-paper", organization, "shadow")
    assert changed["paper_enforcement"] == "SHADOW"
    assert await epochs(pool) == [first + 1]
    operation, _, facts = await last_change(pool)
    assert (operation, facts) == ("organizations enforce-paper", {"paper_enforcement": ("ENFORCE", "SHADOW")})
    await operator.change("organizations", "enforce-paper", organization, "shadow")
    assert await epochs(pool) == [first + 1]
    await operator.change("organizations", "enforce-paper", organization, "enforce")
    assert await epochs(pool) == [first + 2]
    assert "There is no way called MAYBE" in await operator.refused(
        "organizations", "enforce-paper", organization, "maybe"
    )
