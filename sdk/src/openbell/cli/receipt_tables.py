"""Receipts as tables for a person: what each rule said, readable at a glance."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from openbell.cli.plain_text import printable
from openbell.cli.tables import PIPE_WIDTH, console, told_at
from openbell.receipts import Evaluation, Finding, Receipt, findings_of

# Longer ones are in --json.
VALUES_MAX: Final = 6
_STYLES: Final = {"REFUSED": "bold red", "WOULD_REFUSE": "yellow", "PASSED": "green", "EXCEEDED": "yellow"}
_LINE: Final = ("verdict", "code", "scope", "limit", "observed", "version", "what would pass")


def show_receipt(receipt: Receipt) -> None:
    """One receipt: what it is about, and every rule."""
    table = Table(box=None, show_header=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("receipt", _cell(receipt.id))
    table.add_row("verdict", Text(printable(receipt.verdict), style=_STYLES.get(receipt.verdict, "")))
    at = "at the door" if receipt.gate == "door" else "as it was submitted"
    number = "" if receipt.refusal_no is None else f", refusal {receipt.refusal_no}"
    table.add_row("evaluated", _cell(f"{told_at(receipt.created_at)}, {at}{number}"))
    if receipt.intent_id is not None:
        table.add_row("intent", _cell(f"{receipt.intent_id}, action {receipt.seq}"))
    table.add_row("command", _cell(command_line(receipt.body.get("command", {}))))
    if exempt := receipt.body.get("exempt"):
        table.add_row("exempt", _cell(str(exempt)))
    if receipt.body.get("watched_only"):
        table.add_row("only watched", "the organization lets paper accounts pass")
    table.add_row("hash", _cell(receipt.hash))
    screen = console()
    screen.print(table)
    if receipt.findings:
        screen.print(_findings(receipt.findings))
    else:
        screen.print("No rule spoke about it.")


def show_evaluation(evaluation: Evaluation) -> None:
    """What the controls would say, and every rule."""
    screen = console()
    verdict = Text(printable(evaluation.verdict), style=_STYLES.get(evaluation.verdict, ""))
    screen.print(
        verdict.append(f": {printable(command_line(evaluation.receipt.get('command')))}; nothing was recorded")
    )
    if evaluation.findings:
        screen.print(_findings(evaluation.findings))
    else:
        screen.print("No rule speaks about it.")


def show_refusals(receipts: Iterable[Receipt]) -> None:
    """One line per rule that refused."""
    names = ("when", "no", "gate", "code", "scope", "limit", "observed", "what would pass", "receipt")
    table = _table(names)
    for receipt in receipts:
        for finding in receipt.findings:
            if finding.verdict == "REFUSED":
                table.add_row(
                    told_at(receipt.created_at),
                    _cell(str(receipt.refusal_no)),
                    _cell(receipt.gate),
                    _code(finding),
                    _cell(finding.scope),
                    _cell(value_text(finding.limit)),
                    _observed(finding),
                    _cell(_brief(finding.would_pass or "")),
                    _cell(receipt.id),
                )
    console().print(table)


def tell_refusal(receipt: Mapping[str, Any]) -> None:
    """The rules that refused a command, on standard error."""
    refusing = [finding for finding in findings_of(dict(receipt)) if finding.verdict == "REFUSED"]
    if refusing:
        wide = Console(highlight=False, stderr=True)
        screen = wide if wide.is_terminal else Console(highlight=False, stderr=True, width=PIPE_WIDTH)
        screen.print(_findings(refusing))
    sys.stderr.write(f"Receipt: {printable(str(receipt.get('id', '')))}\n")


def show_shadows(receipt: Receipt) -> None:
    """What rules in shadow mode would have refused of an accepted command, if anything."""
    shadows = [finding for finding in receipt.findings if finding.verdict == "WOULD_REFUSE"]
    if shadows:
        screen = console()
        screen.print("It passed, but these rules would refuse it if they were enforced:")
        screen.print(_findings(shadows))


def command_line(command: Any) -> str:  # noqa: ANN401 - any JSON
    """The command in one phrase, as the receipt has it."""
    if not isinstance(command, Mapping):
        return ""
    names = ("action_type", "order_side", "quantity", "symbol", "order_type", "stop_price", "limit_price")
    return " ".join(str(command[name]) for name in (*names, "time_in_force") if command.get(name) is not None)


def value_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """A limit, or what was observed."""
    if not isinstance(value, list):
        return "" if value is None else _brief(str(value))
    parts = [" to ".join(map(str, each)) if isinstance(each, list) else str(each) for each in value[:VALUES_MAX]]
    more = f" and {len(value) - VALUES_MAX} more" if len(value) > VALUES_MAX else ""
    return _brief((", ".join(parts) or "nothing") + more)


def _brief(text: str) -> str:
    # Receipts have times to the microsecond, so that they sort as text; a person does without the zeros.
    return text.replace(".000000Z", "Z")


def _table(names: Iterable[str]) -> Table:
    # What is wide goes on in the next line: a limit that is cut says something else. A code stays in one piece.
    whole = ("verdict", "code", "version", "no")
    columns = (Column(name, overflow="fold", no_wrap=name in whole) for name in names)
    return Table(*columns, box=None, header_style="bold")


def _findings(findings: Iterable[Finding]) -> Table:
    table = _table(_LINE)
    for finding in findings:
        table.add_row(
            Text(printable(finding.verdict), style=_STYLES.get(finding.verdict, "")),
            _code(finding),
            _cell(finding.scope if finding.mode == "hard" else f"{finding.scope}, {finding.mode}"),
            _cell(_limit(finding)),
            _observed(finding),
            _cell("default" if finding.control_version is None else str(finding.control_version)),
            _cell(_brief(finding.would_pass or "")),
        )
    return table


_WORDS: Final = {
    "at_most": "at most",
    "at_least": "at least",
    "multiple_of": "a multiple of",
    "one_of": "one of",
    "none_of": "none of",
    "within": "within",
}


def _limit(finding: Finding) -> str:
    # Some limits are made of an input; without it there is none.
    limit = value_text(finding.limit)
    return f"{_WORDS.get(finding.comparison or '', '')} {limit}".strip() if limit else ""


def _code(finding: Finding) -> Text:
    return _cell(finding.code)


def _observed(finding: Finding) -> Text:
    if finding.missing is not None:
        return _cell(f"missing: {finding.missing}")
    return _cell(value_text(finding.observed))


def _cell(text: str) -> Text:
    # A Text is shown as it is: in a plain string rich would read [brackets] as markup.
    return Text(printable(text))
