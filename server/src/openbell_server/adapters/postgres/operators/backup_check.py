"""Checks that a database, normally one restored from a backup, is complete and consistent; only reads."""

import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import asyncpg

from openbell_server.adapters.postgres import audit_log, named_queries
from openbell_server.adapters.postgres.connection import CONNECT_SECONDS, UNAVAILABLE, describe_error
from openbell_server.adapters.postgres.schema import REVISIONS
from openbell_server.domain.access.audit_chain import Verification
from openbell_server.domain.hash_chains import CHAIN_START, canonical_bytes
from openbell_server.domain.orders.action_chain import ActionChain

OFFENDERS_NAMED: Final = 5
# A large database takes long, and a reader blocks no other transaction.
STATEMENT_SECONDS: Final = 3600
ROWS_AT_ONCE: Final = 1000
_queries = named_queries.load("backup_check")
_receipts = named_queries.load("receipts")

if TYPE_CHECKING:
    Connection = asyncpg.Connection[asyncpg.Record]
else:  # generic in its stubs only
    Connection = asyncpg.Connection


class CannotBeChecked(Exception):
    """The check could not run; the message has the reason and what to do."""


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on the data, and what to do if it does not hold."""

    name: str
    fact: str
    remedy: str
    # Finds the offenders; None if more than one statement is needed.
    statement: Callable[..., AsyncIterator[asyncpg.Record]] | None = None


@dataclass(slots=True)
class Finding:
    """The result of a check: the first offenders by id and their total, or the error if the data cannot be read."""

    check: Check
    offenders: list[str] = field(default_factory=list)
    total: int = 0
    unreadable: str | None = None

    @property
    def holds(self) -> bool:
        return self.total == 0 and self.unreadable is None

    def add_offender(self, offender: object) -> None:
        self.total += 1
        if len(self.offenders) < OFFENDERS_NAMED:
            self.offenders.append(str(offender))


@dataclass(frozen=True, slots=True)
class BackupReport:
    """The findings of all checks, the sizes of what was checked, and counts of the unsettled actions."""

    revision: str
    sizes: dict[str, int]
    unsettled: dict[str, int]
    findings: list[Finding]

    @property
    def is_whole(self) -> bool:
        return all(finding.holds for finding in self.findings)


_MAY_NOT_READ: Final = (
    "This login may not read every organization's rows: use a superuser, or a login with BYPASSRLS that may"
    " read every table, as pg_dump needs too."
)
_AGAIN: Final = "restore it again, or restore an older backup."
_TOUCHED: Final = "restore a backup from before the change, and find out who had write access."
LOGIN: Final = Check("login", "This login may read every organization's rows.", "")
SCHEMA: Final = Check("schema", "The schema is one that this version runs on.", "")
HASHES: Final = Check(
    "hashes",
    "Every action's hash is that of its content.",
    f"These actions were changed after they were recorded: {_TOUCHED}",
)
CHAIN: Final = Check(
    "chain",
    "The chain over each account's actions and receipts ends at its head.",
    f"Actions or receipts of these accounts were changed, exchanged or removed: {_TOUCHED}",
)
REFUSALS: Final = Check(
    "refusals",
    "Every account's refusals are numbered 1, 2, 3 … without a gap, and the chain over them ends at its head.",
    f"Refusals of these accounts were changed, exchanged or removed: {_TOUCHED}",
)
AUDIT: Final = Check(
    "audit",
    "Every organization's audit log is numbered 1, 2, 3 … without a gap, and the chain over it ends at its head.",
    f"Entries of these organizations were changed, exchanged, inserted or removed: {_TOUCHED}",
)
_STATEMENTS: Final = (
    Check(
        "actions",
        "Every account's actions are numbered 1, 2, 3 … without a gap, up to its counter.",
        f"Actions of these accounts, or their counters, are missing: {_AGAIN}",
        _queries.misnumbered_actions_across_organizations,
    ),
    Check(
        "receipts",
        "Every action has its receipt, and every receipt's hash is that of its text.",
        f"These receipts are missing or were changed after they were recorded: {_TOUCHED}",
        _queries.false_receipts_across_organizations,
    ),
    Check(
        "events",
        "Every account's events are numbered 1, 2, 3 … without a gap, up to its counter.",
        f"Events of these accounts are missing: {_AGAIN}",
        _queries.misnumbered_events_across_organizations,
    ),
    Check(
        "orders",
        "Every order has its CREATE, and every CREATE its order.",
        f"These orders, or their CREATE actions, are missing: {_AGAIN}",
        _queries.unmatched_orders_across_organizations,
    ),
    Check(
        "states",
        "Every action has a row with its state.",
        f"The states of these actions are missing or belong to other actions: {_AGAIN}",
        _queries.unmatched_states_across_organizations,
    ),
    Check(
        "executions",
        "Every order's filled quantity and value are the sums of its executions.",
        f"Executions of these orders are missing, or the orders were changed by hand: {_AGAIN}",
        _queries.miscounted_orders_across_organizations,
    ),
    Check(
        "positions",
        "Every position is the signed sum of the account's executions and of its adjustments.",
        f"These positions are missing or were changed by hand: {_AGAIN}",
        _queries.miscounted_positions_across_organizations,
    ),
    Check(
        "keys",
        "Every idempotency key leads to an action.",
        f"A retry with the key of one of these intents would find nothing: {_AGAIN}",
        _queries.dangling_keys_across_organizations,
    ),
)


async def check_backup(url: str) -> BackupReport:
    """Raises CannotBeChecked if the database is unreachable, unreadable or not Openbell's."""
    try:
        connection = await asyncpg.connect(
            url,
            timeout=CONNECT_SECONDS,
            command_timeout=STATEMENT_SECONDS,
            server_settings={
                # Ours last: a name in the database under test must not hide one of PostgreSQL's.
                "search_path": "pg_catalog, openbell",
                "timezone": "UTC",
                "statement_timeout": f"{STATEMENT_SECONDS}s",
                # As pg_dump does: rows that this login may not see raise an error instead of being left out.
                "row_security": "off",
            },
        )
    except (*UNAVAILABLE, asyncpg.PostgresError, ValueError) as error:
        raise CannotBeChecked(
            f"The database cannot be reached ({describe_error(error)}):"
            " check OPENBELL_DATABASE_URL and that the server runs."
        ) from error
    try:
        try:
            async with connection.transaction(isolation="repeatable_read", readonly=True):
                return await _check(connection)
        finally:
            await connection.close(timeout=CONNECT_SECONDS)
    except asyncpg.InsufficientPrivilegeError as error:
        raise CannotBeChecked(_MAY_NOT_READ) from error
    except UNAVAILABLE as error:
        raise CannotBeChecked(f"The connection to the database was lost ({error!r}): run the check again.") from error


async def _check(connection: Connection) -> BackupReport:
    revision = await _known_revision(connection)
    findings = [
        Finding(LOGIN),
        Finding(SCHEMA),
        *await _follow_chains(connection),
        await _follow_refusals(connection),
        await _follow_audit_log(connection),
    ]
    for check in _STATEMENTS:
        assert check.statement is not None
        finding = Finding(check)
        findings.append(finding)
        async with _reading(connection, finding):
            async for row in check.statement(connection):
                finding.offenders.append(row["offender"])
                finding.total = row["total"]
    sizes: dict[str, int] = {}
    unsettled: dict[str, int] = {}
    async with _reading(connection):
        sizes.update(await _queries.sizes_across_organizations(connection))
    async with _reading(connection):
        unsettled.update(await _queries.unsettled_across_organizations(connection))
    return BackupReport(revision, sizes, unsettled, findings)


async def _known_revision(connection: Connection) -> str:
    try:
        revision = await _queries.schema_revision_across_organizations(connection)
    except (asyncpg.UndefinedTableError, asyncpg.InvalidSchemaNameError):
        revision = None
    if revision is None:
        raise CannotBeChecked("This is no database of Openbell: check that OPENBELL_DATABASE_URL names the right one.")
    if revision not in REVISIONS:
        raise CannotBeChecked(
            f"The schema is of revision {revision}, and this version runs on {', '.join(REVISIONS)}: check it with"
            " the version that wrote it, or bring an older copy up to date with openbell-server migrate."
        )
    # Without this right every table looks missing, and a complete database would be reported as broken.
    if not await _queries.may_look_across_organizations(connection):
        raise CannotBeChecked(_MAY_NOT_READ)
    return str(revision)


async def _follow_chains(connection: Connection) -> tuple[Finding, Finding]:
    """Check hashes and chains of all actions, read as a stream to bound the memory."""
    hashes, chains = Finding(HASHES), Finding(CHAIN)
    account: asyncpg.Record | None = None
    chain = ActionChain()
    async with _reading(connection, hashes, chains):
        statement = _queries.chained_actions_across_organizations.sql
        async for row in connection.cursor(statement, prefetch=ROWS_AT_ONCE):
            if account is not None and account["account_id"] != row["account_id"]:
                _judge_chain(chains, account, chain)
                chain = ActionChain()
            account = row
            if row["action_id"] is not None:
                if row["hash"] != hashlib.sha256(canonical_bytes(*row["fields"])).digest():
                    hashes.add_offender(row["action_id"])
                chain.add(row["action_no"], row["chained_from"], row["hash"], row["receipt_hash"] or b"")
        if account is not None:
            _judge_chain(chains, account, chain)
    return hashes, chains


async def _follow_refusals(connection: Connection) -> Finding:
    """Check the numbers and chains of all refusals, read as a stream."""
    finding = Finding(REFUSALS)
    account: asyncpg.Record | None = None
    head, number, is_whole = CHAIN_START, 0, True

    def judge() -> None:
        if account is not None and (not is_whole or (number, head) != (account["last_no"], account["refusal_head"])):
            finding.add_offender(account["account_id"])

    async with _reading(connection, finding):
        statement = _receipts.chained_refusals_across_organizations.sql
        async for row in connection.cursor(statement, prefetch=ROWS_AT_ONCE):
            if account is None or account["account_id"] != row["account_id"]:
                judge()
                head, number, is_whole = CHAIN_START, 0, True
            account = row
            if row["refusal_no"] is not None:
                number += 1
                is_whole = is_whole and row["refusal_no"] == number and row["verdict"] == "REFUSED"
                head = hashlib.sha256(head + hashlib.sha256(row["body"].encode()).digest()).digest()
        judge()
    return finding


async def _follow_audit_log(connection: Connection) -> Finding:
    finding, result = Finding(AUDIT), Verification()
    async with _reading(connection, finding):
        async for part in audit_log.chain_of(connection.cursor(audit_log.CHAINED_ENTRIES, None, prefetch=ROWS_AT_ONCE)):
            result.take(part)
    for organization_id in dict.fromkeys(flaw.organization_id for flaw in result.flaws):
        finding.add_offender(organization_id)
    return finding


def _judge_chain(chains: Finding, account: asyncpg.Record, chain: ActionChain) -> None:
    if chain.head() != account["chain_head"]:
        chains.add_offender(account["account_id"])


@asynccontextmanager
async def _reading(connection: Connection, *findings: Finding) -> AsyncIterator[None]:
    """A savepoint: if the data cannot be read, the findings record the error and the other checks go on."""
    try:
        async with connection.transaction():
            yield
    except (asyncpg.InsufficientPrivilegeError, *UNAVAILABLE):
        raise
    except asyncpg.PostgresError as error:
        for finding in findings:
            finding.unreadable = type(error).__name__
