"""Where webhooks may be sent."""

import ipaddress
import re

import pytest

from openbell_server.domain.events.webhook_targets import URL_PATTERN, Target, TargetRefused, check_address, target_of

REFUSED_URLS = [
    "http://example.com/",
    "ftp://example.com/",
    "https://",
    "https:///path",
    "https:example.com",
    "https://example.com:0/",
    "https://example.com:22/",
    "https://example.com:80/",
    "https://example.com:70000/",
    "https://example.com:08443/",
    "https://example.1b/",
    "https://example._b/",
    "https://user@example.com/",
    "https://user:word@example.com/",
    "https://example.com@127.0.0.1/",
    "https://example.com/#part",
    "https://example.com\\@127.0.0.1/",
    "https://example.com/a b",
    "https://example.com/\r\nhost: other",
    "https://example.com/ä",
    "https://localhost/",
    "https://LOCALHOST/",
    "https://localhost./",
    "https://a.localhost/",
    "https://example.com./",
    "https://example..com/",
    "https://-example.com/",
    "https://intranet/",
    "https://db.internal/",
    "https://printer.local/",
    "https://127.0.0.1/",
    "https://127.1/",
    "https://2130706433/",
    "https://0x7f000001/",
    "https://0x7f.0.0.1/",
    "https://0177.0.0.1/",
    "https://127.0.0.1./",
    "https://example.0x7f/",
    "https://1.2.3.4.5/",
    "https://①②⑦.0.0.1/",
    "https://127。0。0。1/",
    "https://éxample.com/",
    "https://[::1]/",
    "https://[::ffff:127.0.0.1]/",
    "https://[fe80::1%25eth0]/",
    "https://[fe80::1%eth0]/",
    "https://[::127.0.0.1]/",
    "https://[1::2::3]/",
    f"https://example.com/{'a' * 2048}",
    f"https://{'a' * 64}.com/",
]
NOBODYS = [
    *("0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "192.0.0.8", "192.0.0.192", "192.0.2.1", "192.88.99.1"),
    *("198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *("255.255.255.255", "168.63.129.16", "100.100.100.200"),
    *("::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::10.0.0.1"),
    *("64:ff9b::169.254.169.254", "64:ff9b:1::8.8.8.8", "100::1", "2001::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2"),
    *("2001:2::1", "2001:10::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3fff::1", "fe80::1"),
    *("fe80::1%eth0", "2606:4700::1111%eth0", "fec0::1", "ff02::1", "fd00:ec2::254", "4000::1"),
]
OWN = [
    *("127.0.0.1", "127.255.255.255", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1"),
    *("::1", "fc00::1", "fd12:3456::1"),
]
EVERYBODYS = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::8.8.8.8"]


@pytest.mark.parametrize("url", REFUSED_URLS)
def test_a_url_that_two_readers_could_read_differently_or_that_leads_inside_is_refused(url: str) -> None:
    with pytest.raises(TargetRefused):
        target_of(url, private_targets=())


@pytest.mark.parametrize("address", NOBODYS)
def test_nobodys_addresses_are_refused_even_where_private_ones_are_allowed(address: str) -> None:
    for private_allowed in (False, True):
        with pytest.raises(TargetRefused):
            check_address(ipaddress.ip_address(address), private_allowed=private_allowed)


@pytest.mark.parametrize("address", OWN)
def test_private_addresses_are_an_operators_to_allow(address: str) -> None:
    with pytest.raises(TargetRefused):
        check_address(ipaddress.ip_address(address), private_allowed=False)
    check_address(ipaddress.ip_address(address), private_allowed=True)


@pytest.mark.parametrize("address", EVERYBODYS)
def test_public_addresses_pass(address: str) -> None:
    check_address(ipaddress.ip_address(address), private_allowed=False)


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("https://Example.com", Target("https", "example.com", 443, "/"), "example.com"),
        ("https://example.com:8443/a?b=%20c", Target("https", "example.com", 8443, "/a?b=%20c"), "example.com:8443"),
        ("https://xn--bcher-kva.example?a=1", Target("https", "xn--bcher-kva.example", 443, "/?a=1"), None),
        ("https://8.8.8.8/", Target("https", "8.8.8.8", 443, "/"), "8.8.8.8"),
        ("https://[2606:4700::1111]:2083/", Target("https", "2606:4700::1111", 2083, "/"), "[2606:4700::1111]:2083"),
    ],
)
def test_a_url_is_read_in_one_way(url: str, target: Target, authority: str | None) -> None:
    assert target_of(url, private_targets=()) == target
    assert re.search(URL_PATTERN, url)
    assert authority in {None, target.authority}


def test_http_and_names_of_this_machine_pass_where_private_networks_are_allowed() -> None:
    assert target_of("http://localhost:8000/hook", private_targets={"*"}) == Target("http", "localhost", 8000, "/hook")
    assert target_of("http://127.0.0.1", private_targets={"*"}).port == 80


def test_a_private_target_is_allowed_by_its_exact_host_and_port() -> None:
    targets = {"127.0.0.1:9000", "[::1]:9000", "hooks.internal:443"}
    for url in ("http://127.0.0.1:9000/a", "http://[::1]:9000/", "https://Hooks.internal/"):
        target_of(url, private_targets=targets)
    for url in ("http://127.0.0.1:9001/", "http://127.0.0.2:9000/", "https://[::2]:9000/", "http://hooks.internal/"):
        with pytest.raises(TargetRefused):
            target_of(url, private_targets=targets)
