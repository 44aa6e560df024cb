"""Secrets mask themselves: whatever is made of them by mistake shows their names at most."""

import copy
import json
import logging
import pickle
import pprint
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import msgspec
import pytest
import structlog

from openbell_server.domain.access.credentials import Secrets

CANARY = "CANARY-5f0c"
SECRETS = Secrets({"key_id": CANARY, "secret": CANARY})


@dataclass(frozen=True)
class Holder:
    """Something that has them as a field."""

    secrets: Secrets
    name: str = "holder"


def rendered(**fields: object) -> str:
    """A line of a log."""
    return str(structlog.processors.JSONRenderer()(None, "info", dict(fields)))


def logged(message: str, *values: object) -> str:
    return logging.LogRecord("a library", logging.INFO, "", 0, message, values, None).getMessage()


def raised(*values: object) -> str:
    try:
        raise ValueError(*values)
    except ValueError as error:
        return "".join(traceback.format_exception(error))


TEXTS: dict[str, Callable[[], str]] = {
    "repr": lambda: repr(SECRETS),
    "str": lambda: str(SECRETS),
    "format": lambda: format(SECRETS),
    "f-string": lambda: f"{SECRETS} {SECRETS!r} {SECRETS=}",
    "percent": lambda: "%s %r" % (SECRETS, SECRETS),  # noqa: UP031
    "in a list": lambda: str([SECRETS]),
    "pretty": lambda: pprint.pformat({"secrets": SECRETS}),
    "holder": lambda: repr(replace(Holder(SECRETS), name="other")),
    "log line": lambda: rendered(secrets=SECRETS, holder=Holder(SECRETS), listed=[SECRETS]),
    "library's log line": lambda: logged("%s", SECRETS) + logged("%s %r", Holder(SECRETS), SECRETS),
    "exception": lambda: raised(SECRETS) + raised("in vain", Holder(SECRETS)) + raised(f"in vain: {SECRETS}"),
}
COPIES: dict[str, Callable[[], object]] = {
    "pickle": lambda: pickle.dumps(SECRETS),
    "pickle of a holder": lambda: pickle.dumps(Holder(SECRETS)),
    "copy": lambda: copy.copy(SECRETS),
    "deep copy": lambda: copy.deepcopy(SECRETS),
    "asdict of a holder": lambda: asdict(Holder(SECRETS)),
    "json": lambda: json.dumps(SECRETS),
    "msgspec": lambda: msgspec.json.encode(SECRETS),
    "msgspec of a holder": lambda: msgspec.to_builtins(Holder(SECRETS)),
}


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_shows_a_value(name: str) -> None:
    text = TEXTS[name]()
    assert "secret=***" in text
    assert CANARY not in text


@pytest.mark.parametrize("name", COPIES)
def test_nothing_copies_or_writes_them_whole(name: str) -> None:
    with pytest.raises(TypeError) as refused:
        COPIES[name]()
    assert CANARY not in str(refused.value)


def test_a_field_that_is_missing_tells_nothing_of_the_others() -> None:
    with pytest.raises(KeyError) as refused:
        SECRETS["api_key"]
    assert CANARY not in repr(refused.value)


def test_they_can_be_read_by_name() -> None:
    assert (SECRETS["secret"], dict(SECRETS)) == (CANARY, {"key_id": CANARY, "secret": CANARY})
