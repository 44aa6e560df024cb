"""Checks the database: availability, durability, roles, row security, schema and clock."""

from typing import Final

from openbell_server.adapters.postgres.connection import LOGIN_ROLES, Role
from openbell_server.adapters.postgres.schema import NEWEST, REVISIONS
from openbell_server.processes.doctor.findings import (
    ALL,
    DATABASE,
    Check,
    Result,
    Target,
    cannot_tell,
    fine,
    problem,
    warning,
)

OLDEST_MAJOR: Final = 15
SKEW_WARNING_SECONDS: Final = 0.5
# A command's validity after its door: with a larger difference a broker may reject it as too old.
SKEW_PROBLEM_SECONDS: Final = 2.0
_NEW_LOGIN: Final = (
    "Create logins that own nothing: `openbell-server migrate --logins PREFIX`, and use that of this process here."
)


async def _reachable(target: Target) -> Result:
    variable = "OPENBELL_PAPER_DATABASE_URL" if target.process == "paper" else "OPENBELL_DATABASE_URL"
    url = target.settings.paper_database_url if target.process == "paper" else target.settings.database_url
    if not url.get_secret_value():
        return problem("No database is configured.", f"Set {variable} to the postgresql:// address of one.")
    if trouble := target.troubles.get("database"):
        return problem(
            f"PostgreSQL did not accept the connection: {trouble}.",
            f"Check {variable}, that the server runs, and that it accepts this login from here.",
        )
    server = await target.database.server()
    if server.major < OLDEST_MAJOR:
        return problem(f"PostgreSQL is {server.version}.", f"Upgrade it to {OLDEST_MAJOR} or newer.")
    return fine(f"PostgreSQL {server.version} answers.")


def _setting(name: str, what_if_off: str) -> Check:
    async def look(target: Target) -> Result:
        value = (await target.database.server()).settings[name]
        # A commit that waits for a standby waits for the local disk first.
        if value in {"on", "remote_apply", "remote_write"}:
            return fine(f"{name} is {value}.")
        return problem(
            f"{name} is {value}: {what_if_off}",
            f"Set {name} = on in postgresql.conf (and for no database or login otherwise), and reload or restart.",
        )

    return Check("database", name, look, ALL)


async def _power(target: Target) -> Result:
    login = await target.database.login()
    if login.is_superuser:
        return problem(f"The login {login.name} is a superuser: organizations are not isolated.", _NEW_LOGIN)
    if login.bypasses_row_security:
        return problem(
            f"The login {login.name} bypasses row security: it can read every organization.",
            f"Run `alter role {login.name} nobypassrls`.",
        )
    if login.owned:
        return problem(f"The login {login.name} owns {login.owned} relations of the platform.", _NEW_LOGIN)
    if login.makes_roles:
        return problem(f"The login {login.name} may create roles.", f"Run `alter role {login.name} nocreaterole`.")
    return fine(f"The login {login.name} owns nothing and has no privileges of its own.")


async def _roles(target: Target) -> Result:
    login = await target.database.login()
    needed = set(LOGIN_ROLES[target.process])
    if lacking := sorted((needed & login.existing_roles) - login.member_of):
        return problem(
            f"The login {login.name} may not act as {', '.join(lacking)}, which the {target.process} needs.",
            f"Run `grant {', '.join(lacking)} to {login.name}` with the login that migrates.",
        )
    more = sorted(login.member_of - needed)
    # The roles of people and of executors: with these a process could do what its callers may not.
    if dangerous := sorted({Role.OPERATOR, Role.VAULT} & set(more)):
        return problem(
            f"The login {login.name} may act as {' and '.join(dangerous)}, which the {target.process} must not.",
            f"Run `revoke {', '.join(dangerous)} from {login.name}`.",
        )
    if more:
        return warning(
            f"The login {login.name} may act as {', '.join(more)}, which the {target.process} does not need.",
            f"Run `revoke {', '.join(more)} from {login.name}`, and give each kind of process its own login.",
        )
    return fine(f"The login may act in the roles of the {target.process}, and in no other.")


async def _schema(target: Target) -> Result:
    revision = await target.database.revision()
    if revision == NEWEST:
        return fine(f"The schema is the newest, {revision}.")
    migrate = "Run `openbell-server migrate` with the login that owns the database; it may run beside the processes."
    if revision is None or revision < REVISIONS[0]:
        return problem("There is no schema that this version can use.", migrate)
    if revision not in REVISIONS:
        return problem(f"The schema is {revision}, newer than this version.", "Start a newer version of Openbell.")
    return problem(f"The schema is {revision}, and this version has {NEWEST}.", migrate)


async def _row_security(target: Target) -> Result:
    tables = await target.database.unprotected_tables()
    if tables:
        return problem(
            f"Row security is not forced on {', '.join(tables[:5])}: organizations can read each other's rows there.",
            f"Run `call openbell.protect_tenant_table('openbell.{tables[0]}')` as the owner, for each of them.",
        )
    return fine("Row security is forced on every table of organizations.")


def skew(whose: str, ahead: float, took: float) -> Result:
    """The result for a clock difference; took is the round-trip time in seconds."""
    off = abs(ahead) - took / 2
    text = f"The clock of {whose} is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} ours"
    remedy = "Synchronize both machines by NTP (chrony or systemd-timesyncd), then run doctor again."
    if off > SKEW_PROBLEM_SECONDS:
        return problem(f"{text}: orders may be rejected as too old, and tokens as expired.", remedy)
    if off > SKEW_WARNING_SECONDS:
        return warning(f"{text}.", remedy)
    if took > SKEW_PROBLEM_SECONDS:
        return cannot_tell(f"The answer of {whose} took {took:.1f} s: clocks cannot be compared.", "Run doctor again.")
    return fine(f"The clock of {whose} and ours agree.")


async def _clock(target: Target) -> Result:
    # The fastest of three answers is the most precise.
    answers = [await target.database.server() for _ in range(3)]
    best = min(answers, key=lambda answer: answer.took_seconds)
    return skew("PostgreSQL", best.ahead_seconds, best.took_seconds)


CHECKS: Final = (
    Check("database", "reachable", _reachable, ALL),
    _setting("fsync", "confirmed writes can be lost in a power failure."),
    _setting("full_page_writes", "a power failure can leave torn pages."),
    _setting("synchronous_commit", "accepted commands can be lost in a crash."),
    Check("database", "login", _power, DATABASE),
    Check("database", "roles", _roles, DATABASE),
    Check("database", "schema", _schema, DATABASE),
    Check("database", "row_security", _row_security, DATABASE),
    Check("database", "clock", _clock, ALL),
)
