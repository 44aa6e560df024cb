"""Draws the demo: a live screen in a terminal, plain lines elsewhere, and the final comparison."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from types import TracebackType
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from openbell_server.devtools.demo.arms import Arm
from openbell_server.devtools.demo.board import DOUBTS_SHOWN, STATES, Board, Event, Sight
from openbell_server.devtools.demo.ledgers import FAULTS, Comparison, Finding

WIDTH: Final = 92
_PLAIN_SECONDS: Final = 1.0
_EVENTS_SHOWN: Final = 9
# Rows of the live screen without its events, and one for the cursor.
_OTHER_ROWS: Final = 19
_SENTENCES_SHOWN: Final = 10
_COLORS: Final = {
    "queued": "bright_black",
    "dispatching": "blue",
    "unknown": "yellow",
    "working": "blue",
    "filled": "green",
    "canceled": "magenta",
    "rejected": "red",
    "failed": "cyan",
}
_NOTES: Final = {
    Finding.DOUBLED: "sent to the broker more than once",
    Finding.LOST: "in one ledger and not in the other",
    Finding.DISAGREEING: "other quantity, price or state at the broker",
    Finding.UNFINISHED: "neither final nor shown as unknown",
    Finding.PROVEN_ABSENT: "never reached the broker: FAILED, with proof",
    Finding.UNKNOWN: "not known yet; look-ups continue",
    Finding.REFUSED: "the broker refused them",
    Finding.UNSENT: "cancelled while they still queued",
}
_ONLY_IF_ANY: Final = frozenset({Finding.REFUSED, Finding.UNSENT})


class Screen:
    """Shows the board: updated in place in a terminal, as lines elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        in_place = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False) if in_place else None
        self._next_line = 0.0
        self._last_printed: Event | None = None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def show(self, board: Board) -> None:
        if self._live:
            self._live.update(live_screen(board, self._console.height), refresh=True)
            return
        for event in _after(board.events, self._last_printed):
            self._last_printed = event
            self._console.print(f"{event.seconds:5.1f} s  {event.text}", highlight=False, soft_wrap=True)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _PLAIN_SECONDS
            counts = board.counts
            shown = ", ".join(f"{state} {counts[state]}" for state in STATES if counts[state])
            self._console.print(f"{board.seconds:5.1f} s  {shown or 'starting'}", highlight=False, soft_wrap=True)


def live_screen(board: Board, rows: int) -> RenderableType:
    """The screen while the demo runs; its height is constant, so that it does not flicker."""
    events = _event_lines(board, max(1, min(_EVENTS_SHOWN, rows - _OTHER_ROWS)))
    heading = Text.assemble(
        ("Openbell demo", "bold"),
        f"   {board.intents} intents, a broker that misbehaves, processes that die   {board.seconds:4.1f} s",
    )
    progress = Table.grid(padding=(0, 2))
    bar = ProgressBar(total=board.intents, completed=board.settled, width=40, complete_style="green")
    progress.add_row("settled", bar, f"{board.settled} of {board.intents}", f"asked {board.asked}")
    kills = Text("killed   ") + Text(f"executor and relay {board.kills}×", "bold red")
    return Padding(
        Group(heading, "", _state_table(board), "", progress, kills, "", _doubt_table(board), "", events), (1, 1)
    )


def _state_table(board: Board) -> RenderableType:
    table = Table(box=None, padding=(0, 1), header_style="bright_black")
    for state in STATES:
        table.add_column(state, justify="right", min_width=8)
    counts = board.counts
    table.add_row(*(Text(str(counts[state]), f"bold {_COLORS[state]}" if counts[state] else "dim") for state in STATES))
    return table


def _doubt_table(board: Board) -> RenderableType:
    doubts = board.in_doubt
    table = Table.grid(padding=(0, 2))
    for sight in doubts[:DOUBTS_SHOWN]:
        table.add_row(Text(f"  {sight.name}", "yellow"), *_doubt_cells(sight))
    for _ in range(DOUBTS_SHOWN - len(doubts)):
        table.add_row("")
    return Group(Text(f"In doubt now: {len(doubts)}", "bold"), table)


def _doubt_cells(sight: Sight) -> tuple[str, str]:
    age = (datetime.now(UTC) - sight.since).total_seconds()
    unknown = sight.latest.execution.unknown if sight.latest and sight.latest.execution else None
    return f"{max(0.0, age):4.1f} s", f"{sight.why_in_doubt}; look-ups so far: {len(unknown.probes) if unknown else 0}"


def _event_lines(board: Board, count: int) -> RenderableType:
    shown = list(board.events)[-count:]
    lines = [event_line(event) for event in shown] + [Text("")] * (count - len(shown))
    return Group(Text("What happened", "bold"), *lines)


def event_line(event: Event) -> Text:
    line = Text.assemble((f"  {event.seconds:5.1f} s  ", "bright_black"), (event.text, event.style))
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def arms_table(arms: Sequence[Arm]) -> RenderableType:
    table = Table(box=None, padding=(0, 1), header_style="bold", pad_edge=False)
    table.add_column("Did the order go through?", no_wrap=True, min_width=26)
    for column in ("asked", "at the broker", "doubled", "lost track of"):
        table.add_column(column, justify="right", min_width=13)
    for arm in arms:
        wrong = [Text(str(number), "bold red" if number else "bold green") for number in (arm.doubled, arm.lost)]
        table.add_row(arm.name, str(arm.asked), str(arm.at_broker), *wrong)
    note = "The same orders and faults for both, counted from the broker's own records."
    return Group(table, Text(note, "bright_black"))


def final_screen(board: Board, comparison: Comparison) -> RenderableType:
    ours, theirs = comparison.ours, comparison.theirs
    table = Table(box=None, padding=(0, 1), header_style="bold", pad_edge=False)
    table.add_column("Both ledgers", no_wrap=True, min_width=22)
    table.add_column("Openbell", justify="right", min_width=9)
    table.add_column("broker", justify="right", min_width=9)
    table.add_column("", style="bright_black", no_wrap=True)
    table.add_row("asked", str(board.asked), "", f"{board.kills} kills, {len(board.doubts)} seen in doubt")
    table.add_row("accepted", str(len(board.accepted)), "", "each answered once it was durable")
    table.add_row("orders", str(ours.orders), str(theirs.orders), "matched by client order id")
    for state in ("FILLED", "CANCELED", "EXPIRED", "WORKING"):
        if ours.states.get(state) or theirs.states.get(state):
            table.add_row(f"  {state.lower()}", str(ours.states.get(state, 0)), str(theirs.states.get(state, 0)))
    table.add_row("quantity filled", f"{ours.filled_quantity:,f}", f"{theirs.filled_quantity:,f}")
    table.add_row("")
    for finding, note in _NOTES.items():
        found = comparison.findings[finding]
        if found or finding not in _ONLY_IF_ANY:
            style = ("bold red" if found else "bold green") if finding in FAULTS else "bold"
            table.add_row(Text(finding.value), Text(str(len(found)), style), "", note)
    return Group(table, "", *_verdict(comparison))


def _verdict(comparison: Comparison) -> Sequence[Text]:
    if comparison.agree:
        return [Text("Both ledgers agree.", "bold green")]
    sentences = [sentence for fault in FAULTS for sentence in comparison.findings[fault]]
    lines = [Text(f"  {sentence}", "red") for sentence in sentences[:_SENTENCES_SHOWN]]
    return [Text(f"The ledgers disagree about {len(sentences)} orders.", "bold red"), *lines]


def _after(events: Sequence[Event], last: Event | None) -> list[Event]:
    listed = list(events)
    return listed[listed.index(last) + 1 :] if last in listed else listed
