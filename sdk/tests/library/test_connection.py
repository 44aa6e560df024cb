"""Where a client points, and that its key does not show."""

import pytest

from openbell import AsyncClient, Client, NotConfigured
from openbell.connection import ApiKey, connect
from openbell.events.subscriptions import subscription_of

SECRET = "s" * 43
KEY = f"ob_paper_0_abcdefghij12_{SECRET}_crc123"


def test_the_key_shows_only_its_public_part() -> None:
    client = Client(api_key=KEY, account_id="a")
    for shown in (repr(client), str(client), repr(client._connection), repr(AsyncClient(api_key=KEY))):
        assert SECRET not in shown
        assert "crc123" not in shown
        assert "ob_paper_0_abcdefghij12_***" in shown


def test_a_key_of_another_shape_shows_nothing_of_itself() -> None:
    assert f"{ApiKey('hunter2')!r} {ApiKey('hunter2')}" == "*** ***"


def test_the_environment_is_used_for_what_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBELL_API_KEY", KEY)
    monkeypatch.setenv("OPENBELL_URL", "https://api.example.com/")
    monkeypatch.setenv("OPENBELL_STREAM", "stream.example.com:443")
    monkeypatch.setenv("OPENBELL_ACCOUNT", "from-environment")
    connection = connect(None, None, None, "from-argument", 10.0)
    assert connection.url == "https://api.example.com"
    assert connection.stream_address == "stream.example.com:443"
    assert connection.account(None) == "from-argument"
    assert not connection.rest_is_local
    assert not connection.stream_is_local


def test_a_key_without_an_address_is_sent_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENBELL_URL")
    with pytest.raises(NotConfigured) as refused:
        Client(api_key=KEY)
    assert "OPENBELL_URL" in refused.value.remedy


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_a_loopback_address_is_local(host: str) -> None:
    connection = connect(KEY, f"http://{host}:8080", f"{host}:8443", None, 10.0)
    assert connection.rest_is_local
    assert connection.stream_is_local


@pytest.mark.parametrize(
    ("key", "url", "stream", "timeout"),
    [
        (None, None, None, 10.0),
        (f"{KEY}\n", None, None, 10.0),
        (KEY, "localhost:8080", None, 10.0),
        (KEY, "http://localhost:port", None, 10.0),
        (KEY, None, "https://localhost", 10.0),
        (KEY, None, None, 0.0),
    ],
)
def test_a_connection_that_cannot_work_is_refused_with_a_remedy(
    key: str | None, url: str | None, stream: str | None, timeout: float
) -> None:
    with pytest.raises(NotConfigured) as caught:
        connect(key, url, stream, None, timeout)
    assert caught.value.remedy
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("url", ["https://openbell.example.com", "https://127.0.0.1.example.com"])
def test_the_key_of_a_remote_platform_is_never_sent_to_a_stream_on_this_machine(url: str) -> None:
    connection = connect(KEY, url, None, "a", 10.0)
    assert (connection.stream_address, connection.stream_is_local) == (None, False)
    assert subscription_of(connection, None, {}).transport == "sse"
    with pytest.raises(NotConfigured, match="No address of the gRPC event stream") as refused:
        subscription_of(connection, None, {"transport": "grpc"})
    assert "OPENBELL_STREAM" in refused.value.remedy


def test_a_local_platform_has_a_local_stream_by_default() -> None:
    connection = connect(KEY, "http://localhost:8080", None, "a", 10.0)
    assert connection.stream_address == "127.0.0.1:8443"
    assert subscription_of(connection, None, {}).transport == "grpc"


def test_a_call_without_an_account_says_so() -> None:
    with pytest.raises(NotConfigured, match="No account"):
        connect(KEY, None, None, None, 10.0).account(None)
