"""Allowed webhook targets: no address inside a network, however it is written or resolved by DNS."""

import ipaddress
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

URL_LENGTH_MAX: Final = 2048
HTTPS_PORT: Final = 443
HTTP_PORT: Final = 80
# Lower ports belong to other protocols, some of which could interpret a request as their own.
UNRESERVED_PORT_MIN: Final = 1024
PORT_MAX: Final = 65_535
# In the operator's list of private targets: all of them.
ANY_TARGET: Final = "*"

# Nothing that two URL parsers could read differently: no user, fragment, backslash, zone or non-ASCII characters.
_PATH: Final = r"[/?][A-Za-z0-9._~!$&'()*+,;=:@%/?-]*"
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<port>[1-9][0-9]{0,4}))?"
    rf"(?P<path>(?:{_PATH})?)",
    re.ASCII,
)
# The pattern in the API reference. It cannot check whether an address is public. Where an operator allows private
# addresses, http and hosts of one label are valid too.
URL_PATTERN: Final = (
    r"^https://(([A-Za-z0-9_-]{1,63}\.)+[A-Za-z][A-Za-z0-9_-]{0,62}|([0-9]{1,3}\.){3}[0-9]{1,3}|\[[0-9A-Fa-f:.]+\])"
    rf"(:[1-9][0-9]{{0,4}})?({_PATH})?$"
)
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
# Labels that the system's resolver may read as a number: 127.1, 0x7f000001, 0177.0.0.1, 2130706433.
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_NAME_LENGTH_MAX: Final = 253
_INSIDE_NAMES: Final = ("localhost", "local", "internal", "intranet", "lan", "home.arpa", "localdomain")


def _networks(*texts: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


# Networks that an operator may allow: loopback and private ones.
_OWN: Final = _networks(
    "127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "::1/128", "fc00::/7"
)
# Cloud metadata services outside the networks below: always refused.
_METADATA: Final = frozenset(map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254")))
# Special-purpose networks of the IANA registry: this network, link-local, protocols, documentation, 6to4 relays,
# benchmarks, multicast, reserved.
_SPECIAL_4: Final = _networks(
    *("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.31.196.0/24", "192.52.193.0/24"),
    *("192.88.99.0/24", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24"),
    *("224.0.0.0/4", "240.0.0.0/4"),
)
# Only this network is public; the rest is special: mapped and compatible, local, link-local, site-local, multicast.
_GLOBAL_6: Final = ipaddress.IPv6Network("2000::/3")
# Special parts of it: protocols with Teredo and benchmarks, documentation, 6to4, the 6bone, black holes.
_SPECIAL_6: Final = _networks("2001::/23", "2001:db8::/32", "2002::/16", "3ffe::/16", "3fff::/20", "2620:4f:8000::/48")
# IPv4 addresses as seen through a NAT64 gateway.
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


class TargetRefused(ValueError):
    """Nothing is sent to this target; the message completes "the url …"."""


@dataclass(frozen=True, slots=True)
class Target:
    """A parsed URL; `path` includes the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _port_of(self.scheme) else f"{host}:{self.port}"


def is_private_allowed(host: str, port: int, allowed: Collection[str]) -> bool:
    """Whether the operator allows private addresses and http for this host; `allowed` has host:port, or * for all."""
    named = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return named in allowed or ANY_TARGET in allowed


def target_of(url: str, *, private_targets: Collection[str]) -> Target:
    """Raises TargetRefused if the URL alone shows that the target is not allowed."""
    match = _URL.fullmatch(url)
    if len(url) > URL_LENGTH_MAX or not match:
        raise TargetRefused(
            f"must be https://host[:port][/path] in ASCII, without user or fragment, of at most {URL_LENGTH_MAX} signs"
        )
    scheme = match["scheme"]
    port = int(match["port"] or _port_of(scheme))
    named = match["host"].lower()
    private_allowed = is_private_allowed(named.strip("[]"), port, private_targets)
    if scheme != "https" and not private_allowed:
        raise TargetRefused("must begin with https://")
    if port not in {HTTPS_PORT, _port_of(scheme)} and not UNRESERVED_PORT_MIN <= port <= PORT_MAX:
        raise TargetRefused(f"must have the port {HTTPS_PORT} or one from {UNRESERVED_PORT_MIN} to {PORT_MAX}")
    host = _host(named, private_allowed=private_allowed)
    path = match["path"] or "/"
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}")


def _port_of(scheme: str) -> int:
    return HTTPS_PORT if scheme == "https" else HTTP_PORT


def _host(host: str, *, private_allowed: bool) -> str:
    labels = host.split(".")
    if host.startswith("[") or _NUMBER.fullmatch(labels[-1]):
        try:
            address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
        except ValueError:
            raise TargetRefused("must name a host, or write its address in the usual way") from None
        check_address(address, private_allowed=private_allowed)
        return str(address)
    if len(host) > _NAME_LENGTH_MAX or not all(map(_LABEL.fullmatch, labels)):
        raise TargetRefused("must name a host by labels of letters, digits and hyphens, without a dot at the end")
    is_inside = len(labels) == 1 or any(host == name or host.endswith(f".{name}") for name in _INSIDE_NAMES)
    # Every top-level domain begins with a letter.
    if not private_allowed and (is_inside or not labels[-1][0].isalpha()):
        raise TargetRefused("must name a host that everybody finds")
    return host


def check_address(address: Address, *, private_allowed: bool) -> None:
    """Raises TargetRefused unless the address is public, or private where that is allowed."""
    if isinstance(address, ipaddress.IPv6Address) and address in _NAT64:
        # The gateway sends to the embedded IPv4 address.
        check_address(ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF), private_allowed=False)
        return
    is_own = any(address in network for network in _OWN)
    is_zoned = isinstance(address, ipaddress.IPv6Address) and address.scope_id is not None
    if is_zoned or address in _METADATA or (not is_own and _is_special(address)):
        raise TargetRefused("leads to an address that is nobody's host")
    if is_own and not private_allowed:
        raise TargetRefused("leads into a private network")


def _is_special(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv4Address):
        return any(address in network for network in _SPECIAL_4)
    return address not in _GLOBAL_6 or any(address in network for network in _SPECIAL_6)
