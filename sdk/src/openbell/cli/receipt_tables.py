"""Receipts as tables for people: the result of each rule."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from openbell.cli.plain_text import printable, time_text
from openbell.cli.tables import PIPE_WIDTH, cell, console, facts_table
from openbell.receipts.records import Evaluation, Finding, Receipt, findings_of

# Longer lists are shown in full by --json only.
VALUES_MAX: Final = 6
_STYLES: Final = {"REFUSED": "bold red", "WOULD_REFUSE": "yellow", "PASSED": "green", "EXCEEDED": "yellow"}
_LINE: Final = ("verdict", "code", "scope", "limit", "observed", "version", "what would pass")
_COMPARISONS: Final = {
    "AT_MOST": "at most",
    "AT_LEAST": "at least",
    "MULTIPLE_OF": "a multiple of",
    "ONE_OF": "one of",
    "NONE_OF": "none of",
    "WITHIN": "within",
}


def show_receipt(receipt: Receipt) -> None:
    table = facts_table()
    table.add_row("receipt", cell(receipt.id))
    table.add_row("verdict", _verdict(receipt.verdict))
    at = "at the door" if receipt.gate == "DOOR" else "as it was submitted"
    number = "" if receipt.refusal_no is None else f", refusal {receipt.refusal_no}"
    table.add_row("evaluated", cell(f"{time_text(receipt.created_at)}, {at}{number}"))
    if receipt.intent_id is not None:
        table.add_row("intent", cell(f"{receipt.intent_id}, action {receipt.seq}"))
    table.add_row("command", cell(command_line(receipt.receipt.get("command", {}))))
    if exempt := receipt.receipt.get("exempt"):
        table.add_row("exempt", cell(str(exempt)))
    if receipt.receipt.get("watched_only"):
        table.add_row("only watched", "the organization does not enforce its rules on paper accounts")
    table.add_row("hash", cell(receipt.hash))
    console().print(table)
    _show_findings(receipt.findings)


def show_evaluation(evaluation: Evaluation) -> None:
    command = printable(command_line(evaluation.receipt.get("command")))
    console().print(_verdict(evaluation.verdict).append(f": {command}; nothing was recorded"))
    _show_findings(evaluation.findings)


def show_refusals(receipts: Iterable[Receipt]) -> None:
    """One row per rule that refused."""
    table = _table(("when", "no", "gate", "code", "scope", "limit", "observed", "what would pass", "receipt"))
    for receipt in receipts:
        for finding in receipt.findings:
            if finding.verdict == "REFUSED":
                table.add_row(
                    time_text(receipt.created_at),
                    cell(str(receipt.refusal_no)),
                    cell(receipt.gate),
                    cell(finding.code),
                    cell(finding.scope),
                    cell(value_text(finding.limit)),
                    _observed(finding),
                    cell(_brief(finding.would_pass or "")),
                    cell(receipt.id),
                )
    console().print(table)


def show_refusal(receipt: Mapping[str, Any]) -> None:
    """The rules that refused a command, on standard error."""
    refusing = [finding for finding in findings_of(dict(receipt)) if finding.verdict == "REFUSED"]
    if refusing:
        wide = Console(highlight=False, stderr=True)
        screen = wide if wide.is_terminal else Console(highlight=False, stderr=True, width=PIPE_WIDTH)
        screen.print(_findings(refusing))
    sys.stderr.write(f"Receipt: {printable(str(receipt.get('id', '')))}\n")


def show_shadows(receipt: Receipt) -> None:
    """What rules in shadow mode would have refused; nothing if there is none."""
    shadows = [finding for finding in receipt.findings if finding.verdict == "WOULD_REFUSE"]
    if shadows:
        screen = console()
        screen.print("It passed, but these rules would refuse it if they were enforced:")
        screen.print(_findings(shadows))


def command_line(command: Any) -> str:  # noqa: ANN401 - any JSON
    """The command of a receipt in one phrase."""
    if not isinstance(command, Mapping):
        return ""
    names = ("action_type", "order_side", "quantity", "symbol", "order_type", "stop_price", "limit_price")
    return " ".join(str(command[name]) for name in (*names, "time_in_force") if command.get(name) is not None)


def value_text(value: Any) -> str:  # noqa: ANN401 - any JSON
    """A limit or an observed value."""
    if not isinstance(value, list):
        return "" if value is None else _brief(str(value))
    parts = [" to ".join(map(str, each)) if isinstance(each, list) else str(each) for each in value[:VALUES_MAX]]
    more = f" and {len(value) - VALUES_MAX} more" if len(value) > VALUES_MAX else ""
    return _brief((", ".join(parts) or "nothing") + more)


def _brief(text: str) -> str:
    # Receipts have times to the microsecond, so that they sort as text; people do not need the zeros.
    return text.replace(".000000Z", "Z")


def _table(names: Iterable[str]) -> Table:
    # A long cell continues in the next line, because a limit that is cut off would be misread.
    whole = ("verdict", "code", "version", "no")
    columns = (Column(name, overflow="fold", no_wrap=name in whole) for name in names)
    return Table(*columns, box=None, header_style="bold")


def _show_findings(findings: Iterable[Finding]) -> None:
    console().print(_findings(findings) if findings else "No rule applies to it.")


def _findings(findings: Iterable[Finding]) -> Table:
    table = _table(_LINE)
    for finding in findings:
        table.add_row(
            _verdict(finding.verdict),
            cell(finding.code),
            cell(finding.scope if finding.mode == "HARD" else f"{finding.scope}, {finding.mode}"),
            cell(_limit(finding)),
            _observed(finding),
            cell("default" if finding.control_version is None else str(finding.control_version)),
            cell(_brief(finding.would_pass or "")),
        )
    return table


def _verdict(verdict: str) -> Text:
    return Text(printable(verdict), style=_STYLES.get(verdict, ""))


def _limit(finding: Finding) -> str:
    # A limit that is computed from an input does not exist without that input.
    limit = value_text(finding.limit)
    return f"{_COMPARISONS.get(finding.comparison or '', '')} {limit}".strip() if limit else ""


def _observed(finding: Finding) -> Text:
    if finding.missing is not None:
        return cell(f"missing: {finding.missing}")
    return cell(value_text(finding.observed))
