"""Every stream, subject and durable name."""

from typing import Final

from openbell_server.domain.identifiers import AccountId

# Durable: an account has work. Read by executors, one copy each.
WORK_STREAM: Final = "INTENTS"
WORK_CONSUMER: Final = "executors"
ALL_WORK: Final = "intents.>"
# Durable: changes of accounts and their credentials, for executors and whoever listens.
ACCOUNT_STREAM: Final = "ACCOUNTS"
ALL_ACCOUNT_EVENTS: Final = "accounts.>"
# Durable: what became of users, for whoever listens.
USER_STREAM: Final = "USERS"
ALL_USER_EVENTS: Final = "users.>"
# Not stored anywhere: whoever misses one looks into PostgreSQL a moment later.
OUTBOX_WAKE: Final = "wake.outbox"
ALL_EVENT_WAKES: Final = "wake.events.*"
ALL_WORK_WAKES: Final = "wake.work.*"
ALL_SIGN_IN_WAKES: Final = "wake.sign_in.*"


def work(slot: int, account_id: str) -> str:
    """Where an executor hears of an account's work."""
    return f"intents.{slot}.{account_id}"


def account_event(event_type: str) -> str:
    """Where others hear of a change of an account or its credential."""
    return f"accounts.{event_type}"


def user_event(event_type: str) -> str:
    """Where others hear of a change of a user."""
    return f"users.{event_type}"


def work_wake(account_id: AccountId) -> str:
    """Where executors hear of work: of what was just recorded, and of what reached the wrong one of them."""
    return f"wake.work.{account_id}"


def event_wake(account_id: AccountId) -> str:
    """Where a stream server hears that an account has new events."""
    return f"wake.events.{account_id}"


def sign_in_wake(account_id: AccountId) -> str:
    """Where executors hear that somebody waits for a sign-in of the account."""
    return f"wake.sign_in.{account_id}"
