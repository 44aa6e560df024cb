"""What every group of calls has."""

from openbell.async_client.session import AsyncSession


class AsyncCalls:
    """A group of calls over one session."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session
        self._connection = session.connection
