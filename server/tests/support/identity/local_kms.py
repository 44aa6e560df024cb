"""AWS KMS on this machine: moto's server, as a child process."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3

from openbell_server.devtools.child_processes import Child, ChildFailed, free_port, wait_until

REGION = "eu-central-1"
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "testing", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_EC2_METADATA_DISABLED": "true"}
START_SECONDS = 180
STOP_SECONDS = 10


class LocalKms:
    """Its address, and keys made in it."""

    # What a process needs to be believed by it.
    environment = ENVIRONMENT

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.endpoint = f"http://127.0.0.1:{self.port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)]
        self._child = Child(command, log=folder / "kms.log", environment=dict(os.environ))
        self.client: Any = boto3.client("kms", region_name=REGION, endpoint_url=self.endpoint)

    def create_key(self) -> str:
        """Its ARN."""
        return str(self.client.create_key()["KeyMetadata"]["Arn"])

    def wait_ready(self) -> None:
        if not wait_until(self._answers, START_SECONDS):
            raise ChildFailed(f"moto did not start:\n{self._child.log_tail()}")

    def stop(self) -> None:
        self._child.stop(STOP_SECONDS)

    def _answers(self) -> bool:
        import httpx

        try:
            return httpx.get(f"{self.endpoint}/moto-api/data.json", timeout=60, trust_env=False).is_success
        except httpx.HTTPError:
            return False


@contextmanager
def local_kms(folder: Path) -> Iterator[LocalKms]:
    """KMS while it is needed, with the environment that boto3 wants."""
    with patch.dict(os.environ, ENVIRONMENT):
        kms = LocalKms(folder)
        try:
            kms.wait_ready()
            yield kms
        finally:
            kms.stop()
