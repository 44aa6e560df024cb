"""The executor logs a query that a broker did not answer as a warning, any other failure with its traceback."""

import pytest
import structlog
from structlog.testing import capture_logs

from openbell_server.application.ports.broker import SlowDown
from openbell_server.brokers.alpaca.look_ups import ChainBroken
from openbell_server.brokers.http_client import ListBrokenOff
from openbell_server.brokers.http_connections import ConnectionBroken
from openbell_server.processes.executor import _log_failure

BROKEN = "the broker closed the connection"


@pytest.mark.parametrize(
    "failure", [ConnectionBroken(BROKEN), SlowDown(2), ChainBroken("x"), ListBrokenOff("x"), TimeoutError()], ids=repr
)
def test_a_query_that_a_broker_did_not_answer_is_a_warning_without_a_traceback(failure: Exception) -> None:
    with capture_logs() as logs:
        _log_failure(failure, structlog.get_logger())
    assert logs == [{"event": "execution_failed", "log_level": "warning", "error": repr(failure)}]


def test_another_failure_is_an_error_with_its_traceback() -> None:
    failure = AssertionError("a defect")
    with capture_logs() as logs:
        _log_failure(failure, structlog.get_logger())
    assert logs == [{"event": "execution_failed", "log_level": "error", "exc_info": failure}]
