"""Repeats each fill of one account on another, exactly once.

    python examples/copy_trader.py LEADER FOLLOWER --ratio 0.5 --state copied.token

The event's id is the order's idempotency key, and the position in the log is stored after the order is recorded. If the
program is killed between the two, it reads the same fill again and submits the same command, and the platform returns
the recorded action. The first position is stored before the first fill, so that no fill is missed.
"""

import argparse
from decimal import Decimal
from pathlib import Path

from openbell import ApiError, Client, Event, Market


def copy(client: Client, event: Event, follower: str, ratio: Decimal) -> None:
    """Submit the leader's fill as an order of the follower."""
    trade = event.broker_trade
    assert trade is not None, "the subscription has trades only"
    quantity = trade.quantity * ratio
    if trade.kind != "NORMAL":
        print(f"{trade.symbol}: the leader's broker busted or corrected {trade.execution_id}; check it", flush=True)
        return
    order = client.buy if trade.order_side == "BUY" else client.sell
    try:
        # Two equal fills in a row are two fills, so the duplicate-order check is skipped.
        copied = order(
            trade.symbol,
            Market(quantity),
            account_id=follower,
            idempotency_key=event.event_id,
            client_reference_id=trade.execution_id,
            allow_duplicate=True,
        )
    except ApiError as refused:
        print(f"{trade.order_side} {quantity} {trade.symbol}: {refused.code}, {refused.detail}", flush=True)
    else:
        print(f"{trade.order_side} {quantity} {trade.symbol}: copied as {copied.intent_id}", flush=True)


def store(state: Path, token: str) -> None:
    """Store a position in the log; the replacement of the file is atomic."""
    stored = state.with_suffix(".new")
    stored.write_text(token)
    stored.replace(state)


def now(client: Client, leader: str) -> str:
    """The current end of the leader's log."""
    stream = client.events(account_id=leader, start="PRIMED")
    return next(event.resume_token for event in stream if event.primed is not None)


def run(client: Client, leader: str, follower: str, ratio: Decimal, state: Path) -> None:
    """Copy fills from the stored position on."""
    if not state.exists():
        store(state, now(client, leader))
    print(f"waiting for fills of {leader}, to copy them to {follower}; Ctrl-C ends it", flush=True)
    for event in client.events(state.read_text(), account_id=leader, types=["BROKER_TRADE"]):
        copy(client, event, follower, ratio)
        store(state, event.resume_token)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("leader")
    parser.add_argument("follower")
    parser.add_argument("--ratio", type=Decimal, default=Decimal(1))
    parser.add_argument("--state", type=Path, default=Path("copied.token"))
    given = parser.parse_args()
    with Client() as connected:
        run(connected, given.leader, given.follower, given.ratio, given.state)
