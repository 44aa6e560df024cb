"""Secrets that are planted to be looked for, and the search for them in every spelling in which they could get out."""

import base64
import re
import string
import subprocess
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

PART_LENGTH = 16
# Between the two parts of a text: what needs care in addresses, headers, JSON and SQL.
AWKWARD = "\"\\ %2B'&@:/?#=é+$"
GREP_SECONDS = 120
TRIES = 5


@dataclass
class Canaries:
    """Every secret of a run by its name; each part of it gives it away."""

    random: Random = field(default_factory=lambda: Random(5))
    parts: dict[str, tuple[bytes, ...]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """A new one, awkward to write."""
        return AWKWARD.join(part.decode() for part in self._new(name, 2))

    def word(self, name: str) -> str:
        """A new one of letters and digits, for places that take no more."""
        return b"".join(self._new(name, 2)).decode()

    def given(self, name: str, secret: str | bytes) -> None:
        """One that was made elsewhere."""
        self._add(name, (secret.encode() if isinstance(secret, str) else secret,))

    def _new(self, name: str, count: int) -> tuple[bytes, ...]:
        letters = string.ascii_letters + string.digits
        made = tuple("".join(self.random.choices(letters, k=PART_LENGTH)).encode() for _ in range(count))
        self._add(name, made)
        return made

    def _add(self, name: str, parts: tuple[bytes, ...]) -> None:
        assert name not in self.parts, f"there is a canary {name} already"
        self.parts[name] = parts


def spellings(secret: bytes) -> dict[str, bytes]:
    """The secret as it may be written; base64 depends on what stands before it."""
    by_name = {
        "raw": secret,
        "lower case": secret.lower(),
        "upper case": secret.upper(),
        "hex": secret.hex().encode(),
        "upper hex": secret.hex().upper().encode(),
        "in an address": "".join(f"%{byte:02X}" for byte in secret).encode(),
        "escaped in JSON": "".join(f"\\u{byte:04x}" for byte in secret).encode(),
        "escaped by Python": "".join(f"\\x{byte:02x}" for byte in secret).encode(),
    }
    for shift, unknown in enumerate((0, 2, 3)):
        shifted = bytes(shift) + secret
        whole = slice(unknown, len(shifted) * 8 // 6)
        by_name[f"base64 after {shift}"] = base64.b64encode(shifted)[whole]
        by_name[f"base64url after {shift}"] = base64.urlsafe_b64encode(shifted)[whole]
    return by_name


@dataclass
class Search:
    """Looks for the canaries of a run in files."""

    canaries: Canaries
    patterns_file: Path

    def __post_init__(self) -> None:
        self._owners: dict[bytes, str] = {}
        for name, parts in self.canaries.parts.items():
            for part in parts:
                for written in spellings(part).values():
                    # A pattern is a line of text: of random bytes the longest run that can be one is looked for.
                    self._owners[max(re.split(rb"[\n\0]", written), key=len)] = name
        self.patterns = len(self._owners)
        self.patterns_file.write_bytes(b"\n".join(self._owners))

    def hits(self, paths: Iterable[Path]) -> Counter[tuple[str, str]]:
        """How often each canary is in files and in all that is in folders, by canary and file."""
        there = [path for path in paths if path.exists()]
        assert there, "a search of nothing finds nothing"
        command = ["grep", "-raosF", "--null", "-f", str(self.patterns_file), *map(str, there)]
        for _ in range(TRIES):
            run = subprocess.run(
                command,
                capture_output=True,
                timeout=GREP_SECONDS,
                check=False,
                env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
            )
            # 2: a file of a server was gone before it was read.
            if run.returncode < 2:
                break
        else:
            raise AssertionError(f"grep could not read {there}")
        found = (line.split(b"\0", 1) for line in run.stdout.split(b"\n") if line)
        return Counter((self._owners[match], path.decode()) for path, match in found)
