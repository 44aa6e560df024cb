"""The result of a run as text, JSON, JUnit and a timeline in SVG."""

import json
import shlex
from collections import Counter
from decimal import Decimal
from typing import Any, Final
from xml.etree import ElementTree as ET

from openbell_exchange.faults import Fault
from openbell_torture.compare import Finding, Weakness, positions_of
from openbell_torture.faults import EndpointFault
from openbell_torture.run import Result

FAULT_TEXTS: Final = {
    Fault.HANG: "lost before the broker",
    Fault.DONE_LATE: "delayed, done later, not answered",
    Fault.DONE_THEN_HANG: "done, answer lost",
    Fault.DONE_THEN_RESET: "done, connection cut",
    Fault.DONE_THEN_ALL_RESET: "done, all connections cut",
    Fault.DONE_THEN_ERROR: "done, answered 504",
    Fault.DONE_THEN_DENIED: "done, answered no",
    Fault.DONE_THEN_WAIT: "filled before it was answered",
    Fault.TOO_MANY: "429, not done",
    Fault.TOO_MANY_UNTIL: "429 with Retry-After, not done",
    Fault.REFUSE: "refused",
    EndpointFault.READ_RESET: "look-up, connection cut",
    EndpointFault.READ_ERROR: "look-up, answered 504",
    EndpointFault.UNSEEN: "order not found yet",
    EndpointFault.RESTART: "broker restarted, not done",
}


def replay(result: Result) -> str:
    """The command that runs the same again."""
    command = shlex.join(result.command)
    return f"openbell-torture --plan {shlex.quote(result.plan_name)} --seed {result.plan.seed} -- {command}"


def text(result: Result) -> str:
    met = Counter(entry.fault for entry in result.journal.entries if entry.fault is not Fault.NONE)
    ended = "still running at the end" if result.exit_code is None else f"exit code {result.exit_code}"
    lines = [
        f"{len(result.journal.entries)} requests in {result.seconds:.1f} s, {ended}",
        f"{len(result.actions)} orders wanted, {len(result.orders)} orders at the broker"
        + (f", {len(result.orders) / len(result.actions):.2f} per order wanted" if result.actions else ""),
        "faults: " + (", ".join(f"{count} × {FAULT_TEXTS[fault]}" for fault, count in met.items()) or "none"),
        "positions at the broker: "
        + (", ".join(f"{quantity:f} {symbol}" for symbol, quantity in positions_of(result.orders).items()) or "none"),
        "",
    ]
    counts = Counter(finding.weakness for finding in result.findings)
    lines += [f"{weakness.value:>15}  {counts[weakness]}" for weakness in Weakness]
    if result.findings:
        lines += ["", *(_line(finding) for finding in result.findings), "", f"again: {replay(result)}"]
    if not result.actions:
        lines += ["", "The bot asked for no order: does it use the address in APCA_API_BASE_URL?"]
    return "\n".join(lines)


def _line(finding: Finding) -> str:
    requests = ", ".join(f"#{ordinal}" for ordinal in finding.ordinals)
    return f"{finding.at:8.2f} s  {finding.weakness}: {finding.text}" + (f" (requests {requests})" if requests else "")


def as_json(result: Result) -> str:
    content: dict[str, Any] = {
        "command": list(result.command),
        "plan": result.plan_name,
        "seed": result.plan.seed,
        "seconds": round(result.seconds, 3),
        "exit_code": result.exit_code,
        "orders_wanted": len(result.actions),
        "orders_at_broker": len(result.orders),
        "positions": {symbol: _number(quantity) for symbol, quantity in positions_of(result.orders).items()},
        "findings": [
            {
                "weakness": finding.weakness.value,
                "at": round(finding.at, 3),
                "text": finding.text,
                "requests": list(finding.ordinals),
            }
            for finding in result.findings
        ],
        "requests": [
            {
                "number": entry.ordinal,
                "at": round(entry.at, 3),
                "text": entry.text,
                "fault": entry.fault.value,
                "status": entry.status,
            }
            for entry in result.journal.entries
        ],
        "replay": replay(result),
    }
    return json.dumps(content, indent=2)


def junit(result: Result) -> str:
    suite = ET.Element("testsuite", name="openbell-torture", tests=str(len(Weakness)))
    failures = 0
    for weakness in Weakness:
        case = ET.SubElement(suite, "testcase", classname=f"plan {result.plan_name}", name=weakness.value)
        found = [finding for finding in result.findings if finding.weakness is weakness]
        if found:
            failures += 1
            failure = ET.SubElement(case, "failure", message=f"{len(found)} findings")
            failure.text = "\n".join([*map(_line, found), replay(result)])
    suite.set("failures", str(failures))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def _number(quantity: Decimal) -> str:
    return format(quantity, "f")
