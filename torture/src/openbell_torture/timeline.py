"""A run as a picture: every request on a line of time, its fault, and what was found."""

from typing import Final
from xml.sax.saxutils import escape

from openbell_exchange.faults import Fault
from openbell_torture.compare import Finding
from openbell_torture.faults import EndpointFault
from openbell_torture.report import FAULT_TEXTS, replay
from openbell_torture.run import Result

_WIDTH, _LEFT, _ROW, _TOP = 960, 260, 22, 64
_ROWS_MAX: Final = 200
_OK, _LOST, _FOUND, _INK, _PALE = "#2a7f62", "#c8841a", "#b3261e", "#1d2733", "#8a96a3"


def svg(result: Result) -> str:
    entries = [entry for entry in result.journal.entries if entry.asked.method != "GET"][:_ROWS_MAX]
    # The first of a request's findings: what is doubled is often lost track of too.
    found = {ordinal: finding for finding in reversed(result.findings) for ordinal in finding.ordinals}
    height = _TOP + _ROW * max(1, len(entries)) + 24
    scale = (_WIDTH - _LEFT - 240) / max(0.001, result.seconds)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" font-family="sans-serif">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(16, 26, f"{len(result.actions)} orders wanted, {len(result.orders)} at the broker", _INK, 16),
        _text(16, 46, replay(result), _PALE, 11),
    ]
    for row, entry in enumerate(entries):
        y = _TOP + _ROW * row + 12
        finding = found.get(entry.ordinal)
        color = _FOUND if finding else _OK if entry.fault is Fault.NONE else _LOST
        x = _LEFT + entry.at * scale
        parts += [
            _text(16, y + 4, f"#{entry.ordinal} {entry.text}", _INK, 11),
            f'<line x1="{_LEFT}" x2="{_WIDTH - 230}" y1="{y}" y2="{y}" stroke="#e4e8ec"/>',
            f'<circle cx="{x:.1f}" cy="{y}" r="5" fill="{color}"/>',
            _text(_WIDTH - 222, y + 4, _remark(entry.fault, finding), color, 11),
        ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def _remark(fault: Fault | EndpointFault, finding: Finding | None) -> str:
    what = [] if fault is Fault.NONE else [FAULT_TEXTS[fault]]
    return " → ".join([*what, *([finding.weakness.value] if finding else [])])


def _text(x: float, y: float, content: str, color: str, size: int) -> str:
    return f'<text x="{x:.0f}" y="{y:.0f}" fill="{color}" font-size="{size}">{escape(content)}</text>'
