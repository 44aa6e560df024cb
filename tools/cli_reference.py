"""The page of both command lines, made of the programs themselves: every command, argument and option."""

from collections import Counter
from collections.abc import Iterator
from typing import cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

INTRODUCTION = (
    "# Commands\n\n"
    "This page lists every command of `openbell` (for trading) and `openbell-server` (for operating the platform). "
    "`make generate` writes it from the programs. [The command line](command-line.md) explains exit codes, profiles "
    "and confirmation on live accounts; [operators](operators.md) explains the tasks of operators.\n"
)
OPTIONS = "\nOptions of many commands are described only here; `--help` of a command lists its options:\n\n"
OFTEN = 10
Command = TyperCommand | TyperGroup


def cli_reference_page(apps: dict[str, typer.Typer]) -> str:
    """docs/cli-reference.md."""
    page = INTRODUCTION
    for program, app in apps.items():
        root = cast("Command", get_command(app))
        commands = {name: _rows(command) for name, command in _commands(program, root)}
        counts = Counter(row for rows in commands.values() for row in rows)
        often = {row: True for row, count in counts.items() if count > OFTEN and row.startswith("- `-")}
        page += f"\n## {program}\n\n{_told(root)}\n"
        if often:
            page += OPTIONS + "".join(often)
        for name, command in _commands(program, root):
            own = [row for row in commands[name] if row not in often]
            page += f"\n### {name}\n\n{_told(command)}\n" + ("\n" + "".join(own) if own else "")
    return page


def _commands(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    """The commands below a group, each with its whole name; a group that is a command too comes first."""
    children = command.commands if isinstance(command, TyperGroup) else {}
    if not children or (isinstance(command, TyperGroup) and command.invoke_without_command):
        yield name, command
    for child, below in children.items():
        if not below.hidden:
            yield from _commands(f"{name} {child}", cast("Command", below))


def _told(command: Command) -> str:
    return " ".join((command.help or "").split())


def _rows(command: Command) -> list[str]:
    """What a command takes, in the words of its help."""
    context = typer.Context(command, info_name="")
    records = [each.get_help_record(context) for each in command.params if each.name != "help"]
    return [_row(*record) for record in records if record is not None]


def _row(name: str, meaning: str) -> str:
    shown = name.replace(" <str>", " TEXT") if name.startswith("-") else name.split(" <")[0]
    told = " ".join(meaning.split())
    return f"- `{shown}`: {told}\n" if told else f"- `{shown}`\n"
