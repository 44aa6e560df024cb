"""Repeats every fill of one account on another, and never twice.

    python examples/copy_trader.py LEADER FOLLOWER --ratio 0.5 --state copied.token

The event's id is the order's idempotency key, and the place in the log is kept only after the order was recorded:
killed between the two, it reads the same fill again, sends the same order again, and gets the one that is there. The
place where it first began is kept too, so that a fill is not missed before the first one was copied.
"""

import argparse
from decimal import Decimal
from pathlib import Path

from openbell import ApiError, Client, Event, Market


def copy(client: Client, event: Event, follower: str, ratio: Decimal) -> None:
    """Order on the follower what was filled on the leader."""
    trade = event.broker_trade
    assert trade is not None, "only trades were asked for"
    quantity = trade.quantity * ratio
    if trade.kind != "NORMAL":
        print(f"{trade.symbol}: the leader's broker took back or changed {trade.execution_id}; look at it", flush=True)
        return
    order = client.buy if trade.order_side == "BUY" else client.sell
    try:
        # Two fills alike, one right after the other, are two fills: each order says that it is meant.
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


def keep(state: Path, token: str) -> None:
    """Write down a place in the log, whole or not at all."""
    kept = state.with_suffix(".new")
    kept.write_text(token)
    kept.replace(state)


def now(client: Client, leader: str) -> str:
    """Where the leader's log ends at this moment."""
    stream = client.events(account_id=leader, start="primed")
    return next(event.resume_token for event in stream if event.primed is not None)


def run(client: Client, leader: str, follower: str, ratio: Decimal, state: Path) -> None:
    """Copy for ever, from where it was last time on."""
    if not state.exists():
        keep(state, now(client, leader))
    for event in client.events(state.read_text(), account_id=leader, types=["broker_trade"]):
        copy(client, event, follower, ratio)
        keep(state, event.resume_token)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("leader")
    parser.add_argument("follower")
    parser.add_argument("--ratio", type=Decimal, default=Decimal(1))
    parser.add_argument("--state", type=Path, default=Path("copied.token"))
    given = parser.parse_args()
    with Client() as connected:
        run(connected, given.leader, given.follower, given.ratio, given.state)
