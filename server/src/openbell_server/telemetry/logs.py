"""Structured logs on standard error: one JSON object a line, fields by name, never a secret."""

import logging
import re
import sys
import traceback
from types import TracebackType
from typing import Final

import structlog

MASK: Final = "***"
# A net under the rule that secrets are not logged, for what slips into a message or an error of somebody else's code.
# Each has, in small letters, what it cannot be without: most lines have none of it, and are not searched.
_SECRETS: Final = (
    (("ob_",), re.compile(r"\bob_(paper|live)_([0-9A-Za-z]{12})_[0-9A-Za-z_]+"), rf"ob_\1_\2_{MASK}"),
    (("bearer", "basic"), re.compile(r"\b(bearer|basic)(\s+)[\w.~+/=-]{8,}", re.IGNORECASE), rf"\1\2{MASK}"),
    # Signed tokens say of themselves where they begin.
    (("eyj",), re.compile(r"\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"), MASK),
    # To the end of its text, whether the end of the key is there or was cut off; a line stays JSON.
    (("-----begin ",), re.compile(r'-----BEGIN [A-Z ]+-----(?:[^"\\]|\\[^"])*'), f"-----BEGIN {MASK}-----"),
    # The password, or the token in its place, of an address: up to the last @ before the path.
    (("://",), re.compile(r"\b([a-z][a-z0-9+]*://)[^\s/\"'<>?#]+@", re.IGNORECASE), rf"\1{MASK}@"),
    (
        ("password=", "passwd=", "secret=", "api_key="),
        re.compile(r"\b(password|passwd|secret|api_key)(=)[^\s&\"',;\\]+", re.IGNORECASE),
        rf"\1\2{MASK}",
    ),
)


def mask(text: str) -> str:
    """The text without what looks like a secret."""
    small = text.lower()
    for marks, pattern, instead in _SECRETS:
        if any(mark in small for mark in marks):
            text = pattern.sub(instead, text)
    return text


_render = structlog.processors.JSONRenderer()


def _render_masked(logger: object, method: str, event: structlog.typing.EventDict) -> str:
    return mask(str(_render(logger, method, event)))


class _MaskingFormatter(logging.Formatter):
    """For what libraries say."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, masked."""
        return mask(super().format(record))


def configure_logging(process: str, level: str) -> None:
    """Set up structlog for one process; call once, before anything logs."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            # The lines of a traceback, and never the values of its variables.
            structlog.processors.format_exc_info,
            _render_masked,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    # Libraries speak only when something is wrong, whatever our own level: what they say of requests would be bodies,
    # headers and addresses.
    speaker = logging.StreamHandler(sys.stderr)
    speaker.setFormatter(_MaskingFormatter("%(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[speaker])
    sys.excepthook = _print_masked


def _print_masked(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """The last words of a process that nobody caught."""
    sys.stderr.write(mask("".join(traceback.format_exception(kind, error, trace))))
