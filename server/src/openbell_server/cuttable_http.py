"""The HTTP protocol of uvicorn, with a way for the application to abort a connection without a response."""

from collections.abc import Mapping
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CUT: Final = "openbell.cut"


class CuttableProtocol(HttpToolsProtocol):
    """Passes each request's transport to the application."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CUT: {"transport": self.transport}}


def cut_connection(scope: Mapping[str, Any]) -> None:
    """Abort the connection; unsent data is dropped."""
    extensions = scope.get("extensions") or {}
    # Without a socket, as in a test client, there is nothing to abort.
    if CUT in extensions:
        extensions[CUT]["transport"].abort()
