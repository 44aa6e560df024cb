"""Counts terms of a private dialect: python tools/plain_words.py [--max N] [--docs-max N] [path…].

In product code (Python and SQL) it counts WORDS; identifiers are split at underscores and capitals. In documentation
(Markdown, without code) it also counts PHRASES. Prints the totals, then each place in documentation with the term to
use instead, and the code files with most of them. Ends with 1 if a total is above its maximum.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PATHS = (ROOT / "server/src", ROOT / "sdk/src", ROOT / "torture/src", ROOT / "mcp/src", ROOT / "docs")
FILES_SHOWN = 20
# Each term, and what to write instead.
WORDS = {
    "told": "reported, notified",
    "said": "reported, stated",
    "say": "report, state, list",
    "says": "reports, states, lists",
    "hear": "receive",
    "heard": "received",
    "speak": "send, apply",
    "speaks": "sends, applies",
    "word": "report, message, text, name",
    "words": "reports, messages, text, names",
    "mend": "fix",
    "mended": "fixed",
}
PHRASES = {
    r"asked again|asks again": "queried again, retried",
    r"asks? for(?! confirmation)|asked for": "requests, requested",
    r"believe[sd]?": "trusts, accepts",
    r"broker's books?": "the broker's records",
    r"dishonest|honest|honesty": "malicious, correct",
    r"doubts?": "UNKNOWN, unknown outcome",
    r"for good": "permanently",
    r"forgets?|forgot|forgotten": "missing, not stored",
    r"held against": "compared with",
    r"holes?": "gap, vulnerability",
    r"judge[sd]?|judging": "evaluate, check",
    r"learn(?:s|ed)? (?:of|that)": "receives, detects",
    r"less than nothing": "negative",
    r"lets? in": "accepts",
    r"lies|lying": "sends false data",
    r"mute": "silent",
    r"nobody let in|nobody may|nobody can": "disabled, no caller can",
    r"quiet is not dead": "the stream is alive",
    r"remember(?:s|ed)?": "stores, caches",
    r"stands? (?:now|for|beside|in)|what stands": "is, means, the current state",
    r"strangers?": "anonymous caller",
    r"taken? back|takes back|took back": "cancelled, busted",
    r"tells?|telling|untold": "reports, shows",
    r"troubles?": "failure, error",
    r"turn(?:s|ed)? away": "rejects, rejected",
    r"unheard": "not received",
    r"whoever": "the caller that, an attacker who",
    r"writes? again|written again": "sends again, retries",
}
# Text in which such a term has its usual meaning, or is a name that a program prints.
ALLOWED = (
    "cannot tell",  # a level of the doctor
    "in doubt and not flagged",  # a check of the simulation
    "openbell paper mend",  # a command
)
ALLOWED_FILES = (
    "sdk/src/openbell/cli/paper.py",  # the command mend
    "server/src/openbell_server/transport/rest/openapi/references.py",  # words of a name
)
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
TERM = re.compile(rf"\b(?:{'|'.join([*WORDS, *PHRASES])})\b", re.IGNORECASE)
MEANINGS = [(re.compile(pattern, re.IGNORECASE), instead) for pattern, instead in (WORDS | PHRASES).items()]
# Blocks and spans of code, targets of links, comments.
NOT_PROSE = re.compile(r"^( *)```.*?^\1```$|`[^`\n]*`|\]\([^)\n]*\)|<!--.*?-->", re.MULTILINE | re.DOTALL)


def files_of(paths: list[Path], *suffixes: str) -> list[Path]:
    """Files with such a suffix in or among these paths, without those that are allowed or generated from the proto."""
    files = {each.resolve() for path in paths for each in (path.rglob("*") if path.is_dir() else [path])}
    named = {each for each in files if each.suffix in suffixes and "_pb2" not in each.name}
    return sorted(named - {ROOT / name for name in ALLOWED_FILES})


def in_code(text: str) -> Counter[str]:
    return Counter(part.lower() for part in PART.findall(text) if part.lower() in WORDS)


def in_prose(text: str) -> Iterator[tuple[int, str]]:
    """The line and the text of each term in a Markdown page."""
    for allowed in ALLOWED:
        text = text.replace(allowed, "")
    # Line breaks stay, so that lines can be counted.
    text = NOT_PROSE.sub(lambda found: "\n" * found[0].count("\n"), text)
    for found in TERM.finditer(text):
        yield text.count("\n", 0, found.start()) + 1, found[0]


def instead_of(term: str) -> str:
    return next(instead for pattern, instead in MEANINGS if pattern.fullmatch(term))


def main() -> int:
    parser = argparse.ArgumentParser(description="Count terms of a private dialect in product code and documentation.")
    parser.add_argument("paths", nargs="*", type=Path, default=PATHS)
    parser.add_argument("--max", type=int, help="most terms in code")
    parser.add_argument("--docs-max", type=int, help="most terms in documentation")
    chosen = parser.parse_args()
    by_file = {path: in_code(path.read_text()) for path in files_of(list(chosen.paths), ".py", ".sql")}
    code = sum(by_file.values(), Counter())
    pages = files_of(list(chosen.paths), ".md")
    docs = [(path.relative_to(ROOT), *found) for path in pages for found in in_prose(path.read_text())]
    print(f"{code.total()} in code: {', '.join(f'{name} {number}' for name, number in code.most_common())}")
    print(f"{len(docs)} in documentation")
    for page, line, term in docs:
        print(f"  {page}:{line}: {term}; use: {instead_of(term)}")
    for path, terms in sorted(by_file.items(), key=lambda each: -each[1].total())[:FILES_SHOWN]:
        if terms:
            print(f"{terms.total():5} {path.relative_to(ROOT)}")
    return int(_is_above(code.total(), chosen.max) or _is_above(len(docs), chosen.docs_max))


def _is_above(number: int, most: int | None) -> bool:
    return most is not None and number > most


if __name__ == "__main__":
    raise SystemExit(main())
