"""HTTP as uvicorn speaks it, plus a way for the application to cut a connection without a word."""

from collections.abc import Mapping
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

CUT: Final = "openbell.cut"


class CuttableProtocol(HttpToolsProtocol):
    """Hands each request's transport to the application."""

    def on_message_begin(self) -> None:
        """A request begins."""
        super().on_message_begin()
        self.scope["extensions"] = {CUT: {"transport": self.transport}}


def cut_connection(scope: Mapping[str, Any]) -> None:
    """Close the connection as it is: what was not sent yet is not waited for."""
    extensions = scope.get("extensions") or {}
    # Whoever calls an application without a socket has nothing to cut.
    if CUT in extensions:
        extensions[CUT]["transport"].abort()
