"""Records as the platform answers them."""

import os
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from support.environment.cheap_defaults import use_cheap_defaults

# How long an example takes says how busy the machine is, and nothing else. The gate tries what was tried before it.
SLOW = hypothesis.HealthCheck.too_slow
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[SLOW], derandomize="CI" in os.environ
)
hypothesis.settings.load_profile("unhurried")
use_cheap_defaults()

INTENT = "0192f0c1-0000-7000-8000-000000000001"
ACCOUNT = "0192f0c1-0000-7000-8000-0000000000aa"


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENBELL_CONFIG", str(tmp_path / "profiles.json"))
    for name in (
        "OPENBELL_API_KEY",
        "OPENBELL_URL",
        "OPENBELL_STREAM",
        "OPENBELL_ACCOUNT",
        "OPENBELL_ACCESS_TOKEN",
        "OPENBELL_PROFILE",
        "OPENBELL_LOGIN_ISSUER",
        "OPENBELL_LOGIN_CLIENT_ID",
        "FORCE_COLOR",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENBELL_URL", "http://127.0.0.1:8080")


@pytest.fixture
def execution() -> dict[str, Any]:
    return {
        "status": "PARTIALLY_FILLED",
        "filled_quantity": "4.10",
        "leaves_quantity": "5.90",
        "average_price": "187.123456789012345678",
        "broker_order_ids": ["B-1"],
        "certainty": "CONFIRMED",
        "updated_at": "2026-11-02T14:30:01.250000Z",
    }


@pytest.fixture
def record(execution: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "0192f0c1-0000-7000-8000-000000000002",
        "intent_id": INTENT,
        "account_id": ACCOUNT,
        "organization_id": "0192f0c1-0000-7000-8000-0000000000bb",
        "seq": 1,
        "action_type": "CREATE",
        "symbol": "AAPL",
        "order_side": "BUY",
        "order_type": "LIMIT",
        "route_strategy": "SMART",
        "quantity": "10.00",
        "limit_price": "187.50",
        "time_in_force": "DAY",
        "principal_type": "API_KEY",
        "principal_id": "k1",
        "receipt_id": "0192f0c1-0000-7000-8000-0000000000cc",
        "created_at": "2026-11-02T14:30:00Z",
        "status": "ACKED",
        "execution": execution,
    }


@pytest.fixture
def statistics() -> dict[str, Any]:
    return {
        "window": {"since": "2026-11-01T14:00:00Z", "until": "2026-11-02T14:30:00Z"},
        "intents": 2,
        "actions": {"CREATE": 2, "REPLACE": 0, "CANCEL": 1},
        "symbols": [{"symbol": "AAPL", "actions": 3}],
        "sides": {"BUY": 3, "SELL": 0, "SELL_SHORT": 0},
        "control_refusals": 4,
        "outcomes": {"QUEUED": 1, "ACKED": 2},
        "dispatch_latency_millis": {"p50": 13.5, "p95": 32.0, "p99": None},
    }


@pytest.fixture
def control() -> dict[str, Any]:
    return {
        "account_id": ACCOUNT,
        "organization_id": "0192f0c1-0000-7000-8000-0000000000bb",
        "symbol": "BRK/B",
        "created_at": "2026-11-02T14:30:00Z",
        "updated_at": "2026-11-02T14:30:00Z",
        "version": 2,
    }


@pytest.fixture
def rule() -> dict[str, Any]:
    return {
        "code": "QTY_MAX",
        "organization_id": "0192f0c1-0000-7000-8000-0000000000bb",
        "scope": "SYMBOL",
        "account_id": "a",
        "symbol": "BRK/B",
        "terms": {"mode": "HARD", "parameters": {"quantity": "500"}},
        "override": {"mode": "SHADOW", "parameters": {"quantity": "9"}, "expires_at": "2026-11-02T21:00:00Z"},
        "in_force": {"mode": "SHADOW", "parameters": {"quantity": "9"}, "expires_at": "2026-11-02T21:00:00Z"},
        "version": 2,
        "created_at": "2026-11-02T14:30:00Z",
        "updated_at": "2026-11-02T14:30:00Z",
        "principal_type": "USER",
        "principal_id": "olga",
        "reason": "a large rebalance",
    }


@pytest.fixture
def switch(rule: dict[str, Any]) -> dict[str, Any]:
    return {
        "organization_id": rule["organization_id"],
        "scope": "ACCOUNT",
        "account_id": "a",
        "status": "HALTED",
        "cancel_working": True,
        "version": 3,
        "reason": "a runaway",
    }
