"""A deliberate fault in the source or in the database's schema, and the tests that must fail because of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[4]
SOURCE: Final = ROOT / "server/src"
TESTS: Final = ROOT / "server/tests"
SERVER: Final = SOURCE / "openbell_server"
MIGRATIONS: Final = "adapters/postgres/migrations"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFault:
    """Old occurs exactly once in a source file, and new replaces it."""

    name: str
    # Below server/src/openbell_server.
    file: str
    old: str
    new: str
    # Pytest node ids below server/tests; at least one of them fails with the fault, all pass without it.
    tests: tuple[str, ...]

    @property
    def where(self) -> str:
        return f"`{self.file}`"

    def problem(self) -> str | None:
        """Why the fault cannot be applied; None if it can."""
        path = SERVER / self.file
        if not path.is_file():
            return f"fault {self.name!r} no longer applies: there is no file {self.file}"
        found = path.read_text().count(self.old)
        if found == 1:
            return None
        how_often = f"text found {found} times instead of once" if found else "text not found"
        return f"fault {self.name!r} no longer applies: {how_often} in {self.file}: {self.old!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionFault:
    """Old occurs exactly once in a function of the migrated database, and new replaces it."""

    name: str
    function: str
    old: str
    new: str
    tests: tuple[str, ...]

    @property
    def where(self) -> str:
        return f"SQL function `{self.function}`"

    @property
    def sql(self) -> str:
        """A statement that replaces the function, or fails if the text does not occur once in it."""
        return f"""do $fault$
declare
    v_old constant text := $text${self.old}$text$;
    v_new constant text := $text${self.new}$text$;
    v_function constant text := pg_get_functiondef('openbell.{self.function}'::regproc);
    v_found constant integer := (length(v_function) - length(replace(v_function, v_old, ''))) / length(v_old);
begin
    if v_found <> 1 then
        raise exception 'text found % times instead of once in the function {self.function}', v_found;
    end if;
    execute replace(v_function, v_old, v_new);
end $fault$"""

    def problem(self) -> str | None:
        """Why the fault cannot be applied, as far as the migrations show it; None if it can."""
        if any(self.old in path.read_text() for path in (SERVER / MIGRATIONS).rglob("*.sql")):
            return None
        return f"fault {self.name!r} no longer applies: text not found in a .sql file of {MIGRATIONS}: {self.old!r}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFault:
    """A statement that its owner runs on the migrated database."""

    name: str
    sql: str
    tests: tuple[str, ...]

    @property
    def where(self) -> str:
        return "database schema"

    def problem(self) -> str | None:
        """The database alone can tell."""


Fault = SourceFault | FunctionFault | SchemaFault
