"""Receipts in sentences: which rule, its limit, what was observed, and what would pass."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from openbell.receipts.records import Finding, findings_of
from openbell_mcp.marking import is_plain, plain, untrusted

# A receipt has at most a few dozen lines; an answer has these.
SENTENCES_MAX: Final = 30
VALUES_MAX: Final = 6
_SCOPES: Final = {
    "PLATFORM": "of the platform",
    "ORGANIZATION": "of the organization",
    "ACCOUNT": "of the account",
    "SYMBOL": "of the symbol",
    "KEY": "of the key",
}
_COMPARISONS: Final = {
    "EQUALS": "exactly",
    "AT_MOST": "at most",
    "AT_LEAST": "at least",
    "MULTIPLE_OF": "a multiple of",
    "ONE_OF": "one of",
    "NONE_OF": "none of",
    "WITHIN": "within",
}
_VERDICTS: Final = {
    "PASSED": "passed",
    "REFUSED": "refused",
    "WOULD_REFUSE": "would refuse if it were enforced",
    "EXCEEDED": "is exceeded, which does not stop a cancel",
}


# A sentence of ours, or after it the text of others that it refers to.
Line = str | dict[str, str]


def sentences_of(body: Mapping[str, Any]) -> list[Line]:
    """One sentence for each rule of a receipt's body, those that refused first."""
    findings = findings_of(dict(body))
    if not findings:
        return ["This receipt cannot be read here." if body.get("rules") else "No rule applies to this command."]
    ordered = sorted(findings, key=lambda each: each.verdict == "PASSED")
    sentences = [line for each in ordered[:SENTENCES_MAX] for line in _lines(each)]
    if exempt := body.get("exempt"):
        sentences.append(f"The command is exempt from rules: {plain(str(exempt))}.")
    if body.get("watched_only"):
        sentences.append("The organization does not enforce its rules on paper accounts; refusals are only recorded.")
    if len(ordered) > SENTENCES_MAX:
        sentences.append(f"{len(ordered) - SENTENCES_MAX} more rules passed or refused; read the receipt elsewhere.")
    return sentences


def refusing(body: Mapping[str, Any]) -> list[str]:
    """The codes of the rules that refused."""
    return [plain(each.code) for each in findings_of(dict(body)) if each.verdict == "REFUSED"]


def _lines(finding: Finding) -> Iterator[Line]:
    scope, verdict = _SCOPES.get(finding.scope, finding.scope), _VERDICTS.get(finding.verdict, finding.verdict)
    facts, others = [], list[str]()
    if finding.limit is not None:
        facts.append(f"the limit is {_COMPARISONS.get(finding.comparison or '', '')} {_value(finding.limit, others)}")
    if finding.missing is not None:
        facts.append(f"it could not be observed, because {finding.missing} is missing")
    elif finding.observed is not None:
        facts.append(f"observed is {_value(finding.observed, others)}")
    if finding.headroom is not None:
        facts.append(f"the headroom is {finding.headroom}")
    about = f": {', '.join(' '.join(each.split()) for each in facts)}" if facts else ""
    passes = f" It would pass: {finding.would_pass}." if finding.would_pass else ""
    yield plain(f"{finding.code} {scope} {verdict}{about}.{passes}")
    for text in others:
        yield untrusted(text)


def _value(value: Any, others: list[str]) -> str:  # noqa: ANN401 - any JSON
    """A limit or an observed value; of a long list its first values. Text of others is put there instead."""
    if isinstance(value, list):
        parts = [" to ".join(_value(part, others) for part in _pair(each)) for each in value[:VALUES_MAX]]
        more = f" and {len(value) - VALUES_MAX} more" if len(value) > VALUES_MAX else ""
        return (", ".join(parts) or "nothing") + more
    if is_plain(str(value)):
        return str(value)
    others.append(str(value))
    return "the text that follows"


def _pair(value: Any) -> list[Any]:  # noqa: ANN401 - any JSON
    return value[:2] if isinstance(value, list) else [value]
