"""Which agent key belongs to which subject of the OpenID provider: a file that the operator writes."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from openbell_mcp.tokens import SUBJECT_MAX, Unavailable

FILE_BYTES_MAX: Final = 256 * 1024
KEY_BYTES_MAX: Final = 1024
_GROUP_AND_OTHERS: Final = 0o077


class Agent(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The account that an agent trades on, and the file with its key, beside the file of bindings."""

    account: str
    key_file: str


@dataclass(frozen=True, slots=True)
class Binding:
    """What a call to the platform needs; the key is not shown in repr."""

    account: str
    key: str

    def __repr__(self) -> str:
        return f"Binding({self.account})"


class Bindings:
    """Reads the files for each request, so that a change takes effect with the next one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def check(self) -> None:
        """Raises ValueError if any file of a binding cannot be used."""
        for agent in self._agents().values():
            self._key_of(agent)

    def of(self, subject: str) -> Binding | None:
        """None if no key is bound to the subject; raises Unavailable if the files cannot be used now."""
        try:
            agent = self._agents().get(subject)
            return None if agent is None else Binding(agent.account, self._key_of(agent))
        except (OSError, ValueError) as error:
            raise Unavailable("The operator's list of agents cannot be read; ask your admin.") from error

    def _agents(self) -> dict[str, Agent]:
        agents = msgspec.json.decode(_private(self._path, FILE_BYTES_MAX), type=dict[str, Agent])
        if not all(0 < len(subject) <= SUBJECT_MAX for subject in agents):
            raise ValueError(f"{self._path} names a subject that is empty or longer than {SUBJECT_MAX} characters.")
        return agents

    def _key_of(self, agent: Agent) -> str:
        path = self._path.parent / agent.key_file
        key = _private(path, KEY_BYTES_MAX).decode().strip()
        if not key:
            raise ValueError(f"{path} is empty; it must have the API key of the agent.")
        return key


def _private(path: Path, length: int) -> bytes:
    """The content of a file that only its owner can read."""
    with path.open("rb") as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & _GROUP_AND_OTHERS:
            raise ValueError(f"{path} must be readable by its owner only: chmod 600 {path}")
        content = file.read(length + 1)
    if len(content) > length:
        raise ValueError(f"{path} is larger than {length} bytes.")
    return content
