"""Checks a receipt against itself: repeats every comparison from its limit and its observed value."""

import json
import re
from collections.abc import Iterator
from decimal import Context, Decimal, InvalidOperation
from typing import Any, Final, TypeGuard

FIRST_VERSION: Final = 2
CAPABILITY: Final = "CAPABILITY"
_PLAIN: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?")
# The largest numbers are products of a few inputs with fewer than forty digits each.
_EXACT: Final = Context(prec=1000)
_VALUES: Final = {
    "verdict": ("PASSED", "REFUSED", "WOULD_REFUSE", "EXCEEDED"),
    "mode": ("HARD", "SHADOW"),
    "scope": ("PLATFORM", "ORGANIZATION", "ACCOUNT", "SYMBOL", "KEY"),
}
_GATES: Final = ("ACCEPT", "DOOR")


class NotComparable(Exception):
    """The comparison of a line cannot be repeated; the message has the reason."""


def flaws_of_text(text: str) -> Iterator[str]:
    """The flaws of a receipt's text, apart from its hash."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        yield "the text is not JSON"
        return
    yield from flaws_of_body(body)


def flaws_of_body(body: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """The flaws of a receipt's body: a line that contradicts itself, or a verdict that contradicts the lines."""
    if not isinstance(body, dict):
        yield "the receipt is not an object"
        return
    version = body.get("version")
    if not _is_whole(version) or version < FIRST_VERSION:
        yield f"the version {version!r} does not exist"
        return
    if body.get("gate") not in _GATES:
        yield f"the gate {body.get('gate')!r} is neither ACCEPT nor DOOR"
    rules = body.get("rules")
    if not isinstance(rules, list) or not all(isinstance(line, dict) for line in rules):
        yield "rules is not a list of lines"
        return
    for number, line in enumerate(rules, 1):
        for flaw in _flaws_of_line(line, body):
            yield f"rule {number} ({line.get('code')}): {flaw}"
    refusing = [line for line in rules if line.get("verdict") == "REFUSED"]
    expected = "REFUSED" if refusing else "PASSED"
    if body.get("verdict") != expected:
        yield f"the verdict is {body.get('verdict')!r}, and its rules result in {expected}"
    if "exempt" in body and any(line.get("code") != CAPABILITY for line in refusing):
        yield f"it is refused, although {body['exempt']!r} exempts it"


def compare(comparison: object, limit: Any, observed: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether the observed value is within the limit; numbers are compared as numbers, all else as text."""
    match comparison:
        case "EQUALS":
            return bool(limit == observed)
        case "AT_MOST":
            return _order(observed, limit) <= 0
        case "AT_LEAST":
            return _order(observed, limit) >= 0
        case "MULTIPLE_OF":
            step, number = _number(limit), _number(observed)
            if step is None or number is None or step <= 0:
                raise NotComparable(f"{observed!r} cannot be a multiple of {limit!r}")
            try:
                return not _EXACT.remainder(number, step)
            except InvalidOperation:
                raise NotComparable(f"{observed!r} is too long a number") from None
        case "ONE_OF" if isinstance(limit, list):
            return observed in limit
        case "NONE_OF" if isinstance(limit, list):
            return observed not in limit
        case "WITHIN" if isinstance(limit, list):
            return any(_is_in(span, observed) for span in limit)
    raise NotComparable(f"{observed!r} cannot be compared by {comparison!r} with {limit!r}")


def _flaws_of_line(line: dict[str, Any], body: dict[str, Any]) -> Iterator[str]:
    verdict, version = line.get("verdict"), line.get("control_version")
    unknown = [name for name, values in _VALUES.items() if line.get(name) not in values]
    for name in unknown:
        yield f"the {name} {line.get(name)!r} does not exist"
    if not isinstance(line.get("code"), str):
        yield "it has no code"
    if version is not None and (not _is_whole(version) or version < 1):
        yield f"the control version {version!r} is not a version"
    if unknown:
        return
    if line.get("missing") is not None and line.get("observed") is not None:
        yield "something was observed, although an input was missing"
    try:
        expected = _expected(line, body)
    except NotComparable as error:
        yield str(error)
        return
    if verdict not in expected:
        yield f"the verdict is {verdict}, and its inputs result in {' or '.join(sorted(expected))}"
    if verdict != "EXCEEDED" and (line.get("would_pass") is None) != (verdict == "PASSED"):
        yield "would_pass must be present exactly if the line did not pass"


def _expected(line: dict[str, Any], body: dict[str, Any]) -> set[str]:
    """The verdicts that a line can have."""
    # What a broker does not support is refused also where an organization does not enforce its rules.
    watched = body.get("watched_only") and line.get("code") != CAPABILITY
    refusal = "REFUSED" if line["mode"] == "HARD" and not watched else "WOULD_REFUSE"
    if line.get("missing") is not None:
        # The rule itself defines the result of a missing input.
        return {"PASSED", refusal}
    if compare(line.get("comparison"), line.get("limit"), line.get("observed")):
        return {"PASSED"}
    # The platform submits a cancel because a limit was exceeded; a cancel is never refused.
    return {"EXCEEDED"} if body.get("exempt") == "CANCEL" else {refusal}


def _is_whole(value: Any) -> TypeGuard[int]:  # noqa: ANN401 - any JSON
    return isinstance(value, int) and not isinstance(value, bool)


def _number(value: Any) -> Decimal | None:  # noqa: ANN401 - any JSON
    if _is_whole(value) or (isinstance(value, str) and _PLAIN.fullmatch(value)):
        return Decimal(value)
    return None


def _order(left: Any, right: Any) -> int:  # noqa: ANN401 - any JSON
    """Below, at or above zero; times sort as text."""
    numbers = _number(left), _number(right)
    if numbers[0] is not None and numbers[1] is not None:
        return (numbers[0] > numbers[1]) - (numbers[0] < numbers[1])
    if numbers == (None, None) and isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    raise NotComparable(f"{left!r} cannot be compared with {right!r}")


def _is_in(span: Any, observed: Any) -> bool:  # noqa: ANN401 - any JSON
    if not isinstance(span, list) or len(span) != 2:
        raise NotComparable(f"{span!r} is not a pair of from and to")
    return _order(span[0], observed) <= 0 and _order(observed, span[1]) < 0
