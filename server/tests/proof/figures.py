"""Figures of one proof part: measured in this run and printed as they come."""

import json
from dataclasses import dataclass, field

Number = int | float | str


@dataclass
class Figures:
    """One JSON line per figure; a figure without a bar is informational."""

    part: str
    size: str
    rows: list[dict[str, Number | bool | None]] = field(default_factory=list)

    def exactly(self, figure: str, value: int, bar: int) -> None:
        self._add(figure, value, bar, value == bar)

    def at_most(self, figure: str, value: float, bar: float) -> None:
        self._add(figure, value, bar, value <= bar)

    def at_least(self, figure: str, value: float, bar: float) -> None:
        self._add(figure, value, bar, value >= bar)

    def shown(self, figure: str, value: Number) -> None:
        self._add(figure, value, None, True)

    @property
    def ok(self) -> bool:
        return bool(self.rows) and all(row["ok"] for row in self.rows)

    def _add(self, figure: str, value: Number, bar: float | None, ok: bool) -> None:
        row: dict[str, Number | bool | None] = {"figure": figure, "value": value, "bar": bar, "ok": ok}
        self.rows.append(row)
        print(json.dumps(row), flush=True)
