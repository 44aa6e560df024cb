"""What one organization may use at most, so that none takes what others need: one table.

A caller never loses anything at a cap: a request is refused with the cap's name, value and setting, or an event is sent
later.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from openbell_server.domain.errors import CODES, CapReached, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Cap:
    name: str
    limit: int
    # What it bounds, and where that is counted.
    bounds: str
    counted: str
    # The error code of a refusal; None: events are delayed instead.
    code: str | None

    @property
    def setting(self) -> str:
        return f"OPENBELL_CAP_{self.name.upper()}"

    def refusal(self) -> Problem:
        assert self.code is not None, self.name
        detail = (
            f"the organization has reached its cap on {self.bounds}, which is {self.limit};"
            f" the operator sets it with {self.setting}"
        )
        if CODES[self.code].status == 429:
            return CapReached(self.code, detail, self.limit)
        return Problem(self.code, detail)


_DATABASE: Final = "exactly, in the database"
_EACH_API: Final = "in each api process"
_ROWS: Final = (
    Cap(
        name="streams",
        limit=200,
        bounds="open event streams, SSE and gRPC together",
        counted="over all processes, in the database",
        code="too_many_streams",
    ),
    Cap(
        name="events_per_second",
        limit=5000,
        bounds="events a second to its followers",
        counted="in each api and stream process",
        code=None,
    ),
    Cap(
        name="reads_at_once",
        # Large pages that are ready at once delay the commands of others, one after the other.
        limit=4,
        bounds="requests at once that are neither commands nor changes of controls",
        counted=_EACH_API,
        code="too_many_reads",
    ),
    Cap(name="backtests_at_once", limit=1, bounds="back-tests at once", counted=_EACH_API, code="backtest_running"),
    Cap(
        name="api_keys",
        limit=200,
        bounds="API keys that are neither revoked nor expired",
        counted=_DATABASE,
        code="cap_reached",
    ),
    Cap(name="accounts", limit=1000, bounds="accounts that are not closed", counted=_DATABASE, code="cap_reached"),
    Cap(name="webhooks", limit=20, bounds="webhooks", counted=_DATABASE, code="cap_reached"),
)
# With their defaults as limits.
CAPS: Final[Mapping[str, Cap]] = {cap.name: cap for cap in _ROWS}


def caps_with(limits: Mapping[str, int]) -> Mapping[str, Cap]:
    """The table with other limits, by name."""
    return {name: replace(cap, limit=limits.get(name, cap.limit)) for name, cap in CAPS.items()}
