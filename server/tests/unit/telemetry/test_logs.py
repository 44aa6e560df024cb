"""What looks like a secret is masked where logs leave the process, whoever wrote it."""

import json
import os
import subprocess
import sys

import pytest

from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.telemetry.logs import mask

KEY, _ = api_keys.mint(Environment.LIVE, bytes(range(api_keys.ENTROPY_BYTES)))
SECRET = KEY.split("_", 4)[4]
JWT = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ1c2VyXzEifQ.c2lnbmF0dXJlLW9mLXRoZS10b2tlbg"
PEM = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPlanted\nplantedplanted=\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"key {KEY} was sent", SECRET),
        (f"key {KEY[:-4]} was cut", SECRET[:30]),
        ("Authorization: Bearer abcdef.planted-1", "abcdef.planted-1"),
        ("authorization: basic cGxhbnRlZDpwbGFudGVk", "cGxhbnRlZDpwbGFudGVk"),
        (f"a token {JWT} in words", JWT.split(".")[2]),
        (PEM, "MC4CAQAwBQYDK2VwBCIEIPlanted"),
        (PEM[:70], "MC4CAQAwBQYDK2VwBCIEIPlanted"),
        ("postgresql://app:pla%40nted@db:5432/openbell", "pla%40nted"),
        ("postgres://app:p@ss@db/openbell?sslmode=require", "p@ss"),
        ("redis://:planted@cache:6379/0", "planted"),
        ("nats://token-planted@queue:4222", "token-planted"),
        ("postgresql://db/openbell?user=app&password=planted", "planted"),
    ],
)
def test_what_looks_like_a_secret_is_masked(text: str, secret: str) -> None:
    for said in (mask(text), mask(json.dumps({"event": text, "n": 1}))):
        assert secret not in said
        assert "***" in said
    # The line is still one that a machine reads.
    assert json.loads(mask(json.dumps({"event": f'"{text}" and "more"', "n": 1})))["n"] == 1


@pytest.mark.parametrize(
    "text",
    [
        '{"method": "GET", "path": "/v1/accounts/0190-7/intents", "status": 200, "event": "request"}',
        "https://api.workos.com/user_management/users/user_1",
        "the key ob_live_0_0123456789ab is disabled",
        "mail to nobody@example.test",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert mask(text) == text


SPEAKING = f"""
import logging, sys
import structlog
from openbell_server.telemetry.logs import configure_logging

configure_logging("api", "DEBUG")
try:
    local = "planted-local-value"
    raise ValueError("postgresql://app:planted@db/openbell")
except ValueError:
    structlog.get_logger().exception("it_failed", key={KEY!r}, header="Bearer planted-token")
logging.getLogger("asyncpg").warning("at redis://:planted@cache")
for name in ("httpx", "httpcore", "grpc", "nats", "nats.aio", "botocore", "boto3", "urllib3", "asyncio", "redis"):
    assert not logging.getLogger(name).isEnabledFor(logging.INFO), name
logging.getLogger("httpx").info("GET https://app:planted@somewhere")
raise RuntimeError("the last words: nats://app:planted@queue")
"""


def test_no_secret_and_no_local_leaves_a_process_in_its_logs_or_its_last_words() -> None:
    run = subprocess.run(
        [sys.executable, "-c", SPEAKING],
        env={**os.environ},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 1
    assert "it_failed" in run.stderr
    assert "the last words: nats://***@queue" in run.stderr
    assert "at redis://***@cache" in run.stderr
    for secret in (SECRET, "planted@", "planted-token", "planted-local", "GET https"):
        assert secret not in run.stderr, run.stderr
