"""The chain over the hashes of an account's actions and receipts, followed action by action."""

import hashlib
from typing import Final

CHAIN_START: Final = bytes(32)


class ActionChain:
    """One step per set of actions that were accepted together; the database's accept function takes the same steps."""

    def __init__(self) -> None:
        self._head: bytes | None = CHAIN_START
        self._set_from: int | None = None
        self._step = hashlib.sha256()

    def add(self, number: int, chained_from: int, action_hash: bytes, receipt_hash: bytes) -> None:
        """Take in the next action of the account, in the order of their numbers."""
        if number == chained_from:
            self._head = self.head()
            self._step = hashlib.sha256(self._head or b"")
            self._set_from = number
        elif chained_from != self._set_from:
            # It says that it was accepted with actions that are not the ones before it.
            self._head = None
        self._step.update(action_hash + receipt_hash)

    def head(self) -> bytes | None:
        """Where the chain stands; None if the sets it was made of cannot be told any more."""
        return self._head if self._head is None or self._set_from is None else self._step.digest()
