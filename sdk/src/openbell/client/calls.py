# Generated from openbell/async_client/calls.py by make generate. Do not edit.
"""What every group of calls has."""

from openbell.client.session import Session


class Calls:
    """A group of calls over one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._connection = session.connection
