"""Commands over HTTP as fast as a server takes them: wrk, one thread, every command new and under a key of its own."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from openbell_server.devtools.child_processes import ChildFailed

_SCRIPT = """
local accounts, key, mark = {}, "%(key)s", "%(mark)s"
for line in io.lines("%(accounts)s") do accounts[#accounts + 1] = line end
local limit = '{"command":{"type":"CREATE","payload":{"symbol":"AAPL","order_side":"BUY",' ..
    '"spec":{"Limit":{"price":"187.25","quantity":"10","time_in_force":"DAY"}},"route_strategy":"SMART"}}}'
local market = '{"command":{"type":"CREATE","payload":{"symbol":"MSFT","order_side":"SELL",' ..
    '"spec":{"Market":{"quantity":"25"}}}}}'
local number = %(start)d
local headers = {["Content-Type"] = "application/json", ["x-api-key"] = key}
request = function()
    number = number + 1
    headers["Idempotency-Key"] = mark .. number
    return wrk.format("POST", "/v1/accounts/" .. accounts[number * 7919 %% #accounts + 1] .. "/intents", headers,
        number %% 4 == 0 and market or limit)
end
delay = %(pause)d > 0 and function() return %(pause)d end or nil
done = function(summary, latency)
    local errors = summary.errors
    io.write(string.format('{"requests":%%d,"seconds":%%f,"p50":%%f,"p99":%%f,"refused":%%d,"broken":%%d}\\n',
        summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
        errors.status, errors.connect + errors.read + errors.write + errors.timeout))
end
"""


@dataclass(frozen=True)
class Posted:
    """What wrk counted, of requests what the slowest server had; times in milliseconds."""

    rate: float
    requests: int
    p50: float
    p99: float
    refused: int
    broken: int


def post(
    folder: Path,
    urls: Sequence[str],
    api_key: str,
    accounts: Sequence[str],
    connections: int,
    seconds: float,
    mark: str,
    start: int = 0,
    pause_millis: int = 0,
) -> Posted:
    """Commands from as many connections as said, spread over the servers; accounts go round, from a place of theirs.

    Each connection has one command at a time, and pauses before the next.
    """
    (folder / "accounts").write_text("\n".join(accounts) + "\n")
    running = []
    for number, url in enumerate(urls):
        script = folder / f"post-{number}.lua"
        names = {"key": api_key, "mark": f"{mark}-{number}-", "accounts": folder / "accounts"}
        names |= {"start": start, "pause": pause_millis}
        script.write_text(_SCRIPT % names)
        command = ["wrk", "-t1", f"-c{connections // len(urls)}", f"-d{round(seconds)}s", "--timeout", "10s"]
        running.append(
            subprocess.Popen(
                [*command, "-s", str(script), url], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
        )
    told = [_read(process, seconds) for process in running]
    return Posted(
        sum(each["requests"] / each["seconds"] for each in told),
        min(int(each["requests"]) for each in told),
        max(each["p50"] for each in told),
        max(each["p99"] for each in told),
        sum(int(each["refused"]) for each in told),
        sum(int(each["broken"]) for each in told),
    )


def _read(process: "subprocess.Popen[str]", seconds: float) -> dict[str, float]:
    output, _ = process.communicate(timeout=60 + seconds)
    try:
        told: dict[str, float] = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        raise ChildFailed(f"wrk failed:\n{output[-2000:]}") from None
    return told
