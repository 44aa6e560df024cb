"""Every part of the proof: which paths its result depends on, and whether the gate runs it (docs/checks.md)."""

from dataclasses import dataclass
from typing import Final

_SERVER: Final = "server/src/openbell_server"
# What every part runs on.
_PLATFORM: Final = (f"{_SERVER}/adapters", f"{_SERVER}/application", f"{_SERVER}/domain", f"{_SERVER}/processes")
_REST: Final = (*_PLATFORM, f"{_SERVER}/transport/rest")
_EXECUTION: Final = (*_PLATFORM, f"{_SERVER}/brokers", "torture/src/openbell_exchange")
_STREAMS: Final = (*_PLATFORM, f"{_SERVER}/transport", "proto", "sdk/src")
_ALL: Final = (_SERVER, "torture/src/openbell_exchange", "proto", "sdk/src")
# Without those that show results, since each new result changes them.
_PAGES: Final = ("docs/*.md", ":(exclude)docs/guarantees.md", ":(exclude)docs/measurements.md")
_SIMULATED: Final = (f"{_SERVER}/application/execution", f"{_SERVER}/domain", "server/tests/simulation")


@dataclass(frozen=True, slots=True)
class Part:
    """One measurement."""

    # A result is current until one of these paths changes.
    covers: tuple[str, ...]
    # CPU seconds at the gate's size, for the order in which the gate starts its parts. None: nightly only.
    gate_seconds: int | None = None
    # Figures that do not reach their bar; docs/performance.md says why.
    known_shortfalls: frozenset[str] = frozenset()


PARTS: Final = {
    "agents": Part((*_REST, "server/tests/proof/agent_attacks.py"), 15),
    "audit": Part(_PLATFORM, 8),
    "authz": Part(_REST, 25),
    "backtest": Part(_REST, 6),
    # Promises nothing.
    "bench": Part(()),
    "bots": Part((*_REST, f"{_SERVER}/brokers/alpaca", "torture")),
    "brokers": Part((*_EXECUTION, "server/tests/conformance", "server/tests/loopbacks"), 40),
    "commit": Part(_REST, 12),
    "console": Part(
        (f"{_SERVER}/transport/console", f"{_SERVER}/application/console", "console", "clients/typescript/src")
    ),
    "contract": Part(_ALL),
    "controls": Part(_REST, 18),
    "cost": Part((*_EXECUTION, f"{_SERVER}/transport/rest"), 20),
    "crashpoints": Part(_SIMULATED, 7),
    "credentials": Part(_EXECUTION, 16),
    "deadman": Part(_ALL, 13),
    "desk": Part(_EXECUTION, 15),
    "doctor": Part(_ALL, 15),
    "dropin": Part(_REST, 15),
    "e2e": Part(_ALL),
    "errors": Part(_REST),
    "events": Part(_STREAMS, 45),
    "execution": Part(_EXECUTION, 40),
    "fanout": Part(
        _STREAMS,
        known_shortfalls=frozenset(
            f"{streams} subscribers: of a bare server's, median of 9 pairs" for streams in (100, 1000)
        ),
    ),
    "frontdoor": Part((_SERVER, "sdk/src", "README.md")),
    "fuzz-grpc": Part(_STREAMS, 6),
    "fuzz-http": Part(_REST, 45),
    "generators": Part(("docs/openapi.json", *_PAGES, "README.md")),
    "golden": Part((*_EXECUTION, "server/tests/simulation", "server/tests/proof/golden_*.py")),
    "health": Part(_REST, 6),
    "idle": Part((*_EXECUTION, f"{_SERVER}/transport")),
    "isolation": Part(_PLATFORM, 13),
    "kill": Part(_EXECUTION, 28),
    "limits": Part(_REST, 14),
    "loosen": Part(_REST, 12),
    "limits-on-money": Part(_PLATFORM, 8),
    "logins": Part((*_PLATFORM, "docs/security.md"), 12),
    "money": Part((*_PLATFORM, "server/tests/oracle/profit.py"), 12),
    "outbox": Part(_PLATFORM, 14),
    "paging": Part(_REST, 12),
    "people": Part((_SERVER, "sdk", "examples", *_PAGES)),
    "races": Part((f"{_SERVER}/domain", "server/tests/support/brokers"), 4),
    "restart": Part(_ALL, 38),
    "sabotage": Part((_SERVER, "server/tests"), 180),
    "saturation": Part(
        (*_EXECUTION, f"{_SERVER}/transport/rest"),
        known_shortfalls=frozenset({"intents executed while overloaded / capacity"}),
    ),
    "secrets": Part(_ALL, 30),
    "siege": Part(_ALL, 15),
    "simulation": Part(_SIMULATED, 13),
    "speed": Part(
        _ALL,
        14,
        frozenset(
            {
                "POST, 64 connections, 1 process / floor",
                "POST, 64 connections, 1 process / same",
                "POST, 256 connections, 2 processes / floor",
                "accept step alone, 128 at a time, 5000 accounts / floor",
                "accept step alone, 128 at a time, 1 account / floor",
                "accept step alone, one at a time, p50 / floor",
                "durable relay / bare claim and complete",
                "accepted in a crowd / capacity, median of 5 pairs",
                "accept to wire / two commits and one durable publish",
                "accept to wire at 20/s / two commits and one durable publish",
            }
        ),
    ),
    "subscribers": Part(_STREAMS, 15),
    "tokens": Part(_REST, 8),
    "torture": Part(("torture",)),
    "try": Part(
        (f"{_SERVER}/application/broker_trials", f"{_SERVER}/brokers", f"{_SERVER}/processes/brokers/trial.py"), 6
    ),
    "two-executors": Part((*_EXECUTION, f"{_SERVER}/transport/rest")),
    "typescript": Part((_SERVER, "clients/typescript", "docs/openapi.json")),
    "upgrade": Part(_ALL, 45),
    "vault": Part(_PLATFORM, 15),
    "webhooks": Part(_PLATFORM, 15),
    "worst-case": Part((f"{_SERVER}/domain",), 6),
}
