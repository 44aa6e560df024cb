"""Saves the final screen as the SVG of the README, without a web font or other external files."""

import io
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from openbell_server.devtools.demo.arms import Arm
from openbell_server.devtools.demo.board import Board, Event
from openbell_server.devtools.demo.ledgers import Comparison
from openbell_server.devtools.demo.screen import WIDTH, arms_table, event_line, final_screen

_EVENTS_OF_A_KIND: Final = 2
_THEME: Final = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (72, 79, 88),
        (255, 123, 114),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
    [
        (125, 133, 144),
        (255, 161, 152),
        (86, 211, 100),
        (227, 179, 65),
        (121, 192, 255),
        (210, 168, 255),
        (86, 212, 221),
        (240, 246, 252),
    ],
)
# Rich's format without its web font; rich fills in the names in braces.
_FORMAT: Final = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>make demo: the same orders by a plain client and by Openbell, counted from the broker's own records</title>
<desc>
DESCRIPTION
</desc>
<style>
.{unique_id}-matrix {{
    font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
    font-size: {char_height}px;
    line-height: {line_height}px;
    white-space: pre;
}}
.{unique_id}-title {{
    font-size: 18px;
    font-weight: bold;
    font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace;
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""


def save_picture(path: Path, board: Board, comparison: Comparison, arms: Sequence[Arm]) -> None:
    """Write both clients' numbers, also as the picture's description, some of the events, and the final screen."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(arms_table(arms), "", Text("What happened to Openbell on the way", "bold"), sep="\n")
    for event in _selection(board.events):
        console.print(event_line(event))
    console.print()
    console.print(final_screen(board, comparison))
    path.parent.mkdir(parents=True, exist_ok=True)
    code_format = _FORMAT.replace("DESCRIPTION", "\n".join(map(str, arms)))
    svg = console.export_svg(title="make demo", theme=_THEME, code_format=code_format, unique_id="openbell-demo")
    path.write_text("\n".join(line.rstrip() for line in svg.splitlines()) + "\n")


def _selection(events: deque[Event]) -> list[Event]:
    """The first events of each kind (colour), in order of time."""
    kinds: dict[str, list[Event]] = {}
    for event in events:
        kinds.setdefault(event.style, []).append(event)
    chosen = [event for kind in kinds.values() for event in kind[:_EVENTS_OF_A_KIND]]
    return sorted(chosen, key=lambda event: event.seconds)
