"""Structured logs on standard error: one JSON object a line, fields by name, never a secret."""

import logging
import sys

import structlog


def configure_logging(process: str, level: str) -> None:
    """Set up structlog for one process; call once, before anything logs."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level]),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(process=process)
    # Libraries speak only when something is wrong; request lines of ours carry more than theirs.
    logging.basicConfig(level=logging.WARNING, format="%(name)s: %(message)s")
