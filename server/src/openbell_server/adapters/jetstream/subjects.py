"""All streams, subjects and durable names."""

from typing import Final

from openbell_server.domain.identifiers import AccountId

# Durable: an account has work. Read by executors; each message goes to one of them.
WORK_STREAM: Final = "INTENTS"
WORK_CONSUMER: Final = "executors"
ALL_WORK: Final = "intents.>"
# Durable: changes of accounts and their credentials, for executors and other consumers.
ACCOUNT_STREAM: Final = "ACCOUNTS"
ALL_ACCOUNT_EVENTS: Final = "accounts.>"
# Durable: changes of users, for other consumers.
USER_STREAM: Final = "USERS"
ALL_USER_EVENTS: Final = "users.>"
# Not stored: a process that misses one finds the work in PostgreSQL shortly after.
OUTBOX_WAKE: Final = "wake.outbox"
ALL_EVENT_WAKES: Final = "wake.events.*"
ALL_WORK_WAKES: Final = "wake.work.*"
ALL_SIGN_IN_WAKES: Final = "wake.sign_in.*"


def work(slot: int, account_id: str) -> str:
    return f"intents.{slot}.{account_id}"


def account_event(event_type: str) -> str:
    return f"accounts.{event_type}"


def user_event(event_type: str) -> str:
    return f"users.{event_type}"


def work_wake(account_id: AccountId) -> str:
    """For work that was just recorded, or that reached an executor without the account's slot."""
    return f"wake.work.{account_id}"


def event_wake(account_id: AccountId) -> str:
    return f"wake.events.{account_id}"


def sign_in_wake(account_id: AccountId) -> str:
    return f"wake.sign_in.{account_id}"
