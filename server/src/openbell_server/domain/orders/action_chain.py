"""The hash chain over an account's actions and receipts."""

import hashlib

from openbell_server.domain.hash_chains import CHAIN_START


class ActionChain:
    """One step per set of actions that were accepted together; the database's accept function computes the same."""

    def __init__(self) -> None:
        self._head: bytes | None = CHAIN_START
        self._set_from: int | None = None
        self._step = hashlib.sha256()

    def add(self, number: int, chained_from: int, action_hash: bytes, receipt_hash: bytes) -> None:
        """Add the account's next action, in the order of their numbers."""
        if number == chained_from:
            self._head = self.head()
            self._step = hashlib.sha256(self._head or b"")
            self._set_from = number
        elif chained_from != self._set_from:
            # Its set does not begin where the previous actions' set begins.
            self._head = None
        self._step.update(action_hash + receipt_hash)

    def head(self) -> bytes | None:
        """The current head; None if the actions do not form consecutive sets."""
        return self._head if self._head is None or self._set_from is None else self._step.digest()
