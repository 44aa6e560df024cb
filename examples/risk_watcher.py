"""Halts an account that trades too often, and reports when none of its orders is working.

    python examples/risk_watcher.py --trades 20 --seconds 60

Rules refuse single commands before they are sent; this program counts the trades of all of them. The platform enforces
the halt from the moment the call returns, also if this program ends.
"""

import argparse
import time
from collections import defaultdict, deque
from datetime import datetime, timedelta

from openbell import Client, Conflict, HaltReport

REPORT_SECONDS = 60.0


def halt(client: Client, account_id: str, reason: str) -> HaltReport:
    """Halt the account, cancel its working orders, and wait until the broker confirms that none is left."""
    try:
        client.set_switch("HALTED", reason=reason, account_id=account_id, cancel_working=True)
    except Conflict:
        print(f"{account_id}: another caller changed its switch just now", flush=True)
    print(f"{account_id}: waiting up to {REPORT_SECONDS:g} s until the broker confirms that no order works", flush=True)
    deadline = time.monotonic() + REPORT_SECONDS
    while not (report := client.halt_report(account_id)).no_working_orders and time.monotonic() < deadline:
        time.sleep(0.5)
    return report


def run(client: Client, trades_max: int, window: timedelta) -> None:
    """Count the trades of every account, and halt an account with more than trades_max in the window."""
    recent: dict[str, deque[datetime]] = defaultdict(deque)
    halted: set[str] = set()
    stream = client.events(organization=True, types=["BROKER_TRADE"])
    print(f"watching every account for more than {trades_max} trades in {window.total_seconds():g} s", flush=True)
    for event in stream:
        account_id, trades = event.account_id, recent[event.account_id]
        trades.append(event.occurred_at)
        while trades[0] < event.occurred_at - window:
            trades.popleft()
        if len(trades) > trades_max and account_id not in halted:
            halted.add(account_id)
            report = halt(client, account_id, f"{len(trades)} trades within {window.total_seconds():g} s")
            print(f"{account_id} halted; nothing works at its broker: {report.no_working_orders}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trades", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    with Client() as connected:
        run(connected, given.trades, timedelta(seconds=given.seconds))
