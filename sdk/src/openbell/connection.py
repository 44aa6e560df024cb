"""The address and the credential: from arguments, else the environment, else the defaults of a local platform."""

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from openbell.errors import NotConfigured
from openbell.requests import path_of

DEFAULT_STREAM: Final = "127.0.0.1:8443"
DEFAULT_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True, repr=False)
class ApiKey:
    """An API key; as text it shows its public id only."""

    text: str

    def __repr__(self) -> str:
        parts = self.text.split("_")
        public = "_".join(parts[:4]) + "_" if len(parts) == 6 and parts[0] == "ob" else ""
        return f"{public}***"

    __str__ = __repr__


@dataclass(frozen=True, slots=True, repr=False)
class AccessToken:
    """An access token of a user or a service account; as text it shows nothing."""

    text: str

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class Connection:
    """The settings of one client."""

    # None if there is an access token.
    api_key: ApiKey | None
    url: str
    # None if it is not known: then events come from `url` as server-sent events.
    stream_address: str | None
    account_id: str | None
    timeout: float
    access_token: AccessToken | None = None

    @property
    def credential(self) -> tuple[str, str]:
        """The name and value of the header that authenticates."""
        if self.access_token is not None:
            return "authorization", f"Bearer {self.access_token.text}"
        assert self.api_key is not None, "a connection has a token or a key"
        return "x-api-key", self.api_key.text

    @property
    def rest_is_local(self) -> bool:
        """REST requests to this machine use no proxy."""
        return is_loopback(urlsplit(self.url).hostname or "")

    @property
    def stream_is_local(self) -> bool:
        """The event stream to this machine is not encrypted."""
        return is_loopback(urlsplit(f"//{self.stream_address or ''}").hostname or "")

    def account(self, account_id: str | None) -> str:
        """The account of one call, by default the client's; raises NotConfigured if there is none."""
        chosen = account_id or self.account_id
        if not chosen:
            raise NotConfigured("No account was named.", "Pass account_id, or set OPENBELL_ACCOUNT.")
        return chosen

    def path(self, account_id: str | None, *parts: str) -> str:
        """The path of a resource of an account."""
        return path_of("accounts", self.account(account_id), *parts)


def connect(
    api_key: str | None,
    url: str | None,
    stream_address: str | None,
    account_id: str | None,
    timeout: float,
    access_token: str | None = None,
) -> Connection:
    """Raises NotConfigured if a value is missing or malformed. With a token, the key is not used."""
    key = None if access_token else api_key or os.environ.get("OPENBELL_API_KEY", "")
    if key == "":
        raise NotConfigured("No API key was given.", "Pass api_key, or set OPENBELL_API_KEY.")
    if not re.fullmatch(r"[!-~]+", access_token or key or ""):
        what = "access token" if access_token else "API key"
        raise NotConfigured(
            f"The {what} contains a space, a line break or a character outside ASCII.",
            f"Copy the {what.split()[-1]} again, without quotes.",
        )
    url = (url or os.environ.get("OPENBELL_URL") or "").rstrip("/")
    if not url:
        # No default: a key would be sent to whatever listens there.
        remedy = "Pass url, or set OPENBELL_URL; `make dev` writes both to .openbell/dev.env."
        raise NotConfigured("No address of the platform was given.", remedy)
    if not re.fullmatch(r"https?://([^/:\s]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?(/\S*)?", url):
        raise NotConfigured(f"{url!r} is not an address.", "Write it like https://openbell.example.com.")
    # The default is for a local platform only: the key of another one must not be sent to this machine.
    default = DEFAULT_STREAM if is_loopback(urlsplit(url).hostname or "") else None
    stream = stream_address or os.environ.get("OPENBELL_STREAM") or default
    if stream and not re.fullmatch(r"[^/\s]+:[0-9]+", stream):
        raise NotConfigured(f"{stream!r} is not a stream address.", "Write it like stream.example.com:443.")
    if timeout <= 0:
        raise NotConfigured("The timeout must be greater than zero.", "Pass the seconds a request may take.")
    return Connection(
        api_key=None if key is None else ApiKey(key),
        url=url,
        stream_address=stream,
        account_id=account_id or os.environ.get("OPENBELL_ACCOUNT") or None,
        timeout=timeout,
        access_token=AccessToken(access_token) if access_token else None,
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
