"""The console's pages: which file a path shows, how it is cached and compressed, and what is shown without a build."""

import gzip
from pathlib import Path

import pytest

from openbell_server.transport.console.messages import CONTENT_SECURITY_POLICY, SECURITY_HEADERS, Answer, Request
from openbell_server.transport.console.pages import Pages

SCRIPT = b"export const answer = 42;\n" * 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(b"<!doctype html>")
    (tmp_path / "assets/index-B1.js").write_bytes(SCRIPT)
    (tmp_path / "assets/inter-C2.woff2").write_bytes(b"font")
    (tmp_path / "sources.sha256").write_bytes(b"a list")
    return tmp_path


def asked(folder: Path, path: str, **headers: str) -> Answer:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Pages(folder).answer(Request({"method": "GET", "raw_path": path.encode(), "headers": sent}))


@pytest.mark.parametrize(
    "path",
    ["/console/", "/console/index.html", "/console/accounts/1/blotter", "/console/sources.sha256", "/console/.env"],
)
def test_every_path_without_a_file_shows_the_page_which_is_not_stored(folder: Path, path: str) -> None:
    answer = asked(folder, path)
    assert (answer.status, answer.body) == (200, b"<!doctype html>")
    assert dict(answer.headers)[b"cache-control"] == b"no-store"


def test_an_asset_is_kept_for_ever(folder: Path) -> None:
    answer = asked(folder, "/console/assets/index-B1.js")
    headers = dict(answer.headers)
    assert (answer.body, headers[b"content-type"]) == (SCRIPT, b"text/javascript; charset=utf-8")
    assert headers[b"cache-control"] == b"public, max-age=31536000, immutable"
    again = asked(folder, "/console/assets/index-B1.js", if_none_match=headers[b"etag"].decode())
    assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("accepted", ["gzip", "br, gzip;q=0.8", "deflate,gzip"])
def test_text_is_compressed_for_those_who_accept_it(folder: Path, accepted: str) -> None:
    answer = asked(folder, "/console/assets/index-B1.js", accept_encoding=accepted)
    headers = dict(answer.headers)
    assert (headers[b"content-encoding"], headers[b"vary"]) == (b"gzip", b"accept-encoding")
    assert gzip.decompress(answer.body) == SCRIPT
    assert len(answer.body) < len(SCRIPT) / 4
    assert b"content-encoding" not in dict(asked(folder, "/console/assets/index-B1.js").headers)
    font = asked(folder, "/console/assets/inter-C2.woff2", accept_encoding=accepted)
    assert (font.body, b"content-encoding" in dict(font.headers)) == (b"font", False)


@pytest.mark.parametrize("name", ["none.js", "../index.html", "%2e%2e/index.html", ""])
def test_an_asset_that_is_not_there_is_no_page(folder: Path, name: str) -> None:
    assert asked(folder, f"/console/assets/{name}").status == 404


def test_without_a_build_the_page_says_what_to_do(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        answer = asked(folder, "/console/")
        assert (answer.status, b"make console" in answer.body) == (503, True)


def test_the_policy_is_exactly_this() -> None:
    assert CONTENT_SECURITY_POLICY == (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
        " connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
        " require-trusted-types-for 'script'; trusted-types openbell-worker"
    )
    assert dict(SECURITY_HEADERS)[b"content-security-policy"].decode() == CONTENT_SECURITY_POLICY
