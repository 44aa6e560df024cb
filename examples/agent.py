"""An agent with a budget: it tries to overstep, and the platform stops it.

    OPENBELL_ACCESS_TOKEN=$TOKEN python examples/agent.py

An admin's token makes the key, and ends it at the end. Everything between is done with the agent's key only. A list of
steps stands in the place of a model, some of them as if somebody had injected instructions; the limits are on the
server, so it makes no difference what the model was made to want.
"""

import os
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from openbell import Action, ApiError, Client, Limit, Stop

READY_SECONDS = 60.0
Step = tuple[str, Callable[[Client], Action]]


def sell_short(client: Client) -> Action:
    return client.create_intent(symbol="AAPL", side="SELL_SHORT", spec=Limit(1000, price="0.01"))


STEPS: list[Step] = [
    ("buy 1 AAPL", lambda client: client.buy("AAPL", Limit(1, price="100.00"))),
    ("buy 1000000 AAPL", lambda client: client.buy("AAPL", Limit(1_000_000, price="100.00"))),
    ("buy TSLA, which is not on its list", lambda client: client.buy("TSLA", Limit(1, price="100.00"))),
    (
        "sell short at 0.01",
        sell_short,
    ),
    ("buy 900000 with a stop at 0.01", lambda client: client.buy("AAPL", Stop(900_000, stop_price="0.01"))),
    ("buy 9 MSFT at 100.00", lambda client: client.buy("MSFT", Limit(9, price="100.00"))),
    ("buy 5 more than the day has left", lambda client: client.buy("MSFT", Limit(5, price="100.00"))),
]


def reasons(error: ApiError) -> str:
    """The receipt of a refusal as sentences."""
    if error.receipt is None:
        return f"{error.detail} ({error.code})"
    lines = [
        f"{rule['code']} of the {rule['scope'].lower()}: the limit is {rule['limit']}, this was {rule['observed']};"
        f" it would pass: {rule['would_pass']}"
        for rule in error.receipt["rules"]
        if rule["verdict"] == "REFUSED"
    ]
    return "\n    ".join([f"receipt {error.receipt['id']}", *lines])


def attempt(client: Client, what: str, step: Callable[[Client], Action]) -> None:
    try:
        action = step(client)
    except ApiError as error:
        print(f"  refused: {what}\n    {reasons(error)}", flush=True)
    else:
        print(f"  accepted: {what} (intent {action.intent_id})", flush=True)


def wait_until_ready(client: Client) -> None:
    """Until the platform knows both symbols and has measured the loss of the day; a dry run records nothing."""
    deadline = time.monotonic() + READY_SECONDS
    for symbol in ("AAPL", "MSFT"):
        while client.evaluate(symbol=symbol, side="BUY", spec=Limit(1, price="100.00")).verdict != "PASSED":
            if time.monotonic() > deadline:
                raise SystemExit(f"{symbol} cannot be traded yet: is the account connected to its broker?")
            time.sleep(0.5)


def run(admin: Client, account_id: str, person: Client) -> None:
    made = admin.api_keys.create_for_agent(
        "example agent",
        expires_at=datetime.now(UTC) + timedelta(hours=1),
        account_ids=[account_id],
        symbols=["AAPL", "MSFT"],
        order_notional=1000,
        day_notional=1200,
        day_loss=200,
        currency="USD",
        orders_per_minute=20,
    )
    assert made.api_key is not None
    try:
        print("What the key can do at worst:", *admin.api_keys.worst_case(made.id).sentences, sep="\n  ", flush=True)
        of_person = person.buy("AAPL", Limit(1, price="90.00"))
        with Client(api_key=made.api_key, account_id=account_id) as agent:
            wait_until_ready(agent)
            print("What the agent tries:", flush=True)
            for what, step in STEPS:
                attempt(agent, what, step)
            attempt(agent, "cancel an order of a person", lambda client: client.cancel_intent(of_person.intent_id))
        day = admin.api_keys.worst_case(made.id).days[0]
        print(f"Of {day.per_day} {day.currency} a day, {day.accepted_today} were accepted, {day.left_today} are left.")
    finally:
        admin.api_keys.revoke(made.id)


if __name__ == "__main__":
    account = os.environ["OPENBELL_ACCOUNT"]
    with Client(access_token=os.environ["OPENBELL_ACCESS_TOKEN"]) as as_admin, Client() as as_person:
        run(as_admin, account, as_person)
