"""Counts words of a private dialect in product code: python tools/plain_words.py [--max N] [folder…].

Prints the total, each word's count and the files with most of them. Identifiers are split at underscores and capitals.
Ends with 1 if the total is above --max.
"""

import argparse
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORDS = frozenset(
    ["told", "said", "say", "says", "hear", "heard", "word", "words", "speak", "speaks", "mend", "mended"]
)
FOLDERS = (ROOT / "server/src", ROOT / "sdk/src")
FILES_SHOWN = 20
PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


def product_files(folders: list[Path]) -> list[Path]:
    """Python and SQL files, without code generated from the proto."""
    files = [path for folder in folders for kind in ("*.py", "*.sql") for path in folder.rglob(kind)]
    return sorted(path for path in files if "_pb2" not in path.name)


def count(text: str) -> Counter[str]:
    return Counter(part.lower() for part in PART.findall(text) if part.lower() in WORDS)


def main() -> int:
    parser = argparse.ArgumentParser(description="Count words of a private dialect in product code.")
    parser.add_argument("folders", nargs="*", type=Path, default=FOLDERS)
    parser.add_argument("--max", type=int)
    chosen = parser.parse_args()
    by_file = {path: count(path.read_text()) for path in product_files(list(chosen.folders))}
    total = sum(by_file.values(), Counter())
    print(f"{total.total()} in all: {', '.join(f'{name} {number}' for name, number in total.most_common())}")
    for path, found in sorted(by_file.items(), key=lambda each: -each[1].total())[:FILES_SHOWN]:
        if found:
            print(f"{found.total():5} {path.resolve().relative_to(ROOT)}")
    return int(chosen.max is not None and total.total() > chosen.max)


if __name__ == "__main__":
    raise SystemExit(main())
