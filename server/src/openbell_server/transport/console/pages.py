"""The built pages of the console, read into memory at the start."""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from openbell_server.transport.console.messages import NO_STORE, Answer, Headers, Request, page

BASE: Final = "/console/"
INDEX: Final = "/console/index.html"
ASSETS: Final = "/console/assets/"
# Their names have a hash of the content.
_IMMUTABLE: Final = (b"cache-control", b"public, max-age=31536000, immutable")
_CHECKED: Final = (b"cache-control", b"no-cache")
_TYPES: Final = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "ico": "image/x-icon",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
    "webmanifest": "application/manifest+json",
    "woff2": "font/woff2",
}
_COMPRESSED: Final = frozenset({"css", "html", "js", "json", "svg", "txt", "webmanifest"})
NO_BUILD: Final = (
    "This installation has no pages of the console.",
    "In a checkout, run `make console` and start the console again.",
    "A wheel of openbell-server contains the pages: install one that `make wheels` has built.",
)


@dataclass(frozen=True, slots=True)
class _File:
    body: bytes
    compressed: bytes | None
    tag: bytes
    headers: Headers


class Pages:
    def __init__(self, folder: Traversable) -> None:
        self._files: Mapping[str, _File] = dict(_read(folder, BASE)) if folder.is_dir() else {}

    @property
    def is_built(self) -> bool:
        return INDEX in self._files

    def answer(self, request: Request) -> Answer:
        """The file of the path; for every other path the page, which reads the path itself."""
        if not self.is_built:
            return page(503, "The console is not built", NO_BUILD)
        path = request.path
        found = self._files.get(path) if path != INDEX else None
        if found is None and path.startswith(ASSETS):
            return Answer(404, b"there is no such file\n", [(b"content-type", b"text/plain"), NO_STORE])
        if found is None:
            # It names the assets of this build, so it is never stored.
            found = self._files[INDEX]
            return _body(found, request, [*found.headers, NO_STORE])
        caching = _IMMUTABLE if path.startswith(ASSETS) else _CHECKED
        headers = [*found.headers, caching, (b"etag", found.tag)]
        if found.tag in (request.header(b"if-none-match") or b"").split(b", "):
            return Answer(304, b"", headers)
        return _body(found, request, headers)


def built_pages() -> Pages:
    return Pages(files("openbell_server.transport.console").joinpath("static"))


def _body(found: _File, request: Request, headers: Headers) -> Answer:
    accepted = {each.strip().partition(b";")[0] for each in (request.header(b"accept-encoding") or b"").split(b",")}
    if found.compressed is not None and b"gzip" in accepted:
        return Answer(200, found.compressed, [*headers, (b"content-encoding", b"gzip")])
    return Answer(200, found.body, headers)


def _read(folder: Traversable, prefix: str) -> list[tuple[str, _File]]:
    found: list[tuple[str, _File]] = []
    for each in folder.iterdir():
        if each.is_dir():
            found += _read(each, f"{prefix}{each.name}/")
        elif (kind := each.name.rpartition(".")[2]) in _TYPES:
            found.append((f"{prefix}{each.name}", _file(each.read_bytes(), kind)))
    return found


def _file(body: bytes, kind: str) -> _File:
    headers: Headers = [(b"content-type", _TYPES[kind].encode())]
    compressed = None
    if kind in _COMPRESSED:
        headers.append((b"vary", b"accept-encoding"))
        compressed = gzip.compress(body, mtime=0)
    return _File(body, compressed, f'"{hashlib.sha256(body).hexdigest()[:32]}"'.encode(), headers)
