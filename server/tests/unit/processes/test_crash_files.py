"""What a process keeps secret does not get into files when it crashes."""

import os
import subprocess
import sys

PROGRAM = """
import resource
from openbell_server.processes import lifecycle
from openbell_server.settings import Settings

async def serve(settings, stopping, operations, hints):
    print("limit", resource.getrlimit(resource.RLIMIT_CORE))

lifecycle.run("api", Settings(), serve)
"""


def test_a_process_writes_no_core_file() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"OPENBELL_DATABASE_URL": "postgresql://127.0.0.1/none"},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "limit (0, 0)" in ran.stdout
