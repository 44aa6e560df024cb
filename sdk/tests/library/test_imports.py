"""What importing and asking for help costs: the slow libraries stay unloaded until a command needs them."""

import subprocess
import sys

import pytest

import openbell

NAMES = """
Account AccountChanged AccountOverview Action ApiError ApiKey AsyncClient AsyncHeartbeats AsyncMirror
AuditEntry Backtest BacktestExample Balances BalancesChanged Book Broker BrokerCommand BrokerFeed BrokerOrder
BrokerPosition BrokerTrade Calendar CancelResult ChainHeads ChainedAction Client Conflict ControlChanged
ControlKind Credential CredentialField CredentialForm DeskCommand DeskOrder EffectiveControls EffectiveRule Evaluation
Event EventMissed EventPage ExchangeRate Execution ExternalOrder FaultPlan FieldProblem Finding
GivenPrice GivenRate HaltCancels HaltReport HaltedAccount HaltedOrder Heartbeat Heartbeats InFlightCommand IntentAction
IntentRefused Invalid InvalidSignature LaneCounts Latency Limit Market MarketSession MarketSessions
Me Mirror NotAuthenticated NotConfigured NotFinal NotFound OpenbellError Order OrderPage
Organization Outbox Outboxes OutcomeUnknown Page PermissionDenied Position PositionAdjusted
PositionChange Positions Primed Probe RateLimited Reason Receipt RecordedExecution ReferencePrice References Rule
RuleChange RuleTally RuleTerms Statistics Stop StopLimit Switch SymbolControl SymbolCount
SymbolTime Unavailable UnexpectedReply Unhealthy Unknown Unreachable ValidKey Webhook WebhookAttempt
WebhookLane WebhookTest Window WorstCase webhooks
"""
SLOW = {"httpx", "grpc", "rich", "msgspec", "google.protobuf"}


def loaded_after(code: str) -> set[str]:
    report = f"{code}\nimport sys\nsys.stderr.write(' '.join(sys.modules))"
    result = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True, timeout=60)
    return set(result.stderr.split())


def test_importing_openbell_loads_no_slow_library() -> None:
    assert (
        loaded_after("import openbell; openbell.Market(10); openbell.ApiError; openbell.webhooks.verify") & SLOW
        == set()
    )


@pytest.mark.parametrize("arguments", [["--help"], ["intents", "create", "--help"], ["events", "tail", "--help"]])
def test_help_loads_no_slow_library(arguments: list[str]) -> None:
    code = f"""
import sys
sys.argv = ["openbell", *{arguments!r}]
from openbell.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
    assert loaded_after(code) & SLOW == set()


def test_submitting_does_not_load_grpc() -> None:
    assert loaded_after("import openbell; openbell.Client('k')") & {"grpc", "google.protobuf"} == set()


def test_every_public_name_is_there() -> None:
    assert openbell.__all__ == NAMES.split()
    for name in openbell.__all__:
        assert getattr(openbell, name).__name__.removeprefix("openbell.") == name
    assert set(openbell.__all__) <= set(dir(openbell))
    missing = "nothing"
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        getattr(openbell, missing)
