"""Structured logs on standard error: one JSON object per line, never a secret."""

import logging
import re
import sys
import traceback
from types import TracebackType
from typing import Final

import structlog

MASK: Final = "***"
# A second safeguard: secrets must not be logged, but a message or an error of other code may contain one. Each pattern
# has lower-case marks that it cannot match without, so that most lines skip the search.
_SECRETS: Final = (
    (("ob_",), re.compile(r"\b(ob_(?:paper|live)_\w_[0-9A-Za-z]{12}_)[0-9A-Za-z_]+"), rf"\1{MASK}"),
    (("bearer", "basic"), re.compile(r"\b(bearer|basic)(\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1\2{MASK}"),
    # A signed token (JWT) begins with this.
    (("eyj",), re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), MASK),
    # Up to the end of the text, also if the key's end was cut off; the line stays valid JSON.
    (("-----begin ",), re.compile(r'-----BEGIN [A-Z ]+-----(?:[^"\\]|\\[^"])*'), f"-----BEGIN {MASK}-----"),
    # The user and password of a URL: up to the last @ before the path.
    (("://",), re.compile(r"\b([a-z][a-z0-9+]*://)[^\s/\"'<>?#]+@", re.IGNORECASE), rf"\1{MASK}@"),
    (
        ("password=", "passwd=", "secret=", "api_key="),
        re.compile(r"\b(password|passwd|secret|api_key)(=)[^\s&\"',;\\]+", re.IGNORECASE),
        rf"\1\2{MASK}",
    ),
)


def mask(text: str) -> str:
    """Replace everything that looks like a secret."""
    small = text.lower()
    for marks, pattern, instead in _SECRETS:
        if any(mark in small for mark in marks):
            text = pattern.sub(instead, text)
    return text


_render = structlog.processors.JSONRenderer()


def _render_masked(logger: object, method: str, event: structlog.typing.EventDict) -> str:
    return mask(str(_render(logger, method, event)))


class _MaskingFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return mask(super().format(record))


def configure_logging(process: str, level: str) -> None:
    """Configure logging of one process; call once, before anything logs."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # The lines of a traceback, never the values of its variables.
            structlog.processors.format_exc_info,
            _render_masked,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    # Libraries log warnings only, whatever our level: their request logs would contain bodies, headers and addresses.
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_MaskingFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    sys.excepthook = _print_masked


def _print_masked(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    sys.stderr.write(mask("".join(traceback.format_exception(kind, error, trace))))
