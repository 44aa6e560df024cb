"""An audit log with entries of many kinds, and everything that an owner of the database could do to it."""

from collections.abc import Iterator
from dataclasses import dataclass

from openbell_server.adapters.postgres import audit_log
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.adapters.postgres.controls.control_rules import PostgresRuleStore
from openbell_server.adapters.postgres.controls.symbol_controls import PostgresControlStore
from openbell_server.adapters.postgres.operators.operators import PostgresOperatorStore
from openbell_server.domain.access.audit_chain import Tampering, Verification
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.rules import Address, RuleTerms
from openbell_server.domain.controls.symbol_controls import ManualControl
from openbell_server.domain.identifiers import Symbol
from support.builders.tenant import Tenant, a_tenant, new_id
from support.tenancy.statements import Owner

# What each column becomes: another value, as long as any.
_CHANGES = {
    "organization_id": "gen_random_uuid()",
    "entry_no": "entry_no + 1000000",
    "audit_id": "gen_random_uuid()",
    "occurred_at": "occurred_at + interval '1 microsecond'",
    "login": "login || 'x'",
    "principal_type": "case principal_type when 'USER' then 'SYSTEM' else 'USER' end",
    "principal_id": "principal_id || 'x'",
    "operation": "'keys create' || operation",
    "object_id": "object_id || ' '",
    "before": "coalesce(before || ' ', '')",
    "after": "after || ' '",
    "hash": "sha256(hash)",
}
_RENUMBER = (
    "update audit_log set entry_no = -(entry_no {sign} 1) where {organization} and entry_no > {number};"
    "update audit_log set entry_no = -entry_no where {organization} and entry_no < 0"
)
_COPY = (
    "insert into audit_log select organization_id, {number}, gen_random_uuid(), occurred_at, login, principal_type,"
    " principal_id, operation, 'somebody else', before, after, sha256(hash) from audit_log where {organization}"
    " and entry_no = {like}"
)


@dataclass(frozen=True, slots=True)
class Alteration:
    """Statements for an owner without triggers."""

    tampering: Tampering
    number: int
    statements: str


async def an_audit_log(pool: Pool, entries: int) -> Tenant:
    """An organization with so many entries of ten kinds, written by three kinds of principals."""
    tenant = await a_tenant(pool)
    account, organization_id = tenant.account, tenant.account.organization_id
    operators, controls, rules = (
        PostgresOperatorStore(pool, "olga"),
        PostgresControlStore(pool),
        PostgresRuleStore(pool),
    )
    place = (organization_id, account.id)
    address = Address(organization_id=organization_id, scope=Scope.ACCOUNT, account_id=account.id)
    key_id = tenant.key.split("_")[3]
    for turn in range(-(-entries // 10)):
        await operators.disable_organization(organization_id, disabled=True)
        await operators.disable_organization(organization_id, disabled=False)
        await operators.set_internal(organization_id, internal=turn % 2 == 0)
        await operators.disable_api_key(key_id, disabled=True)
        await operators.disable_api_key(key_id, disabled=False)
        await operators.disable_user("dev", f"auth|{turn}", "Zürich – left", organization_id)
        await operators.enable_user("dev", f"auth|{turn}", organization_id)
        halted = ManualControl(manually_disabled=turn % 2 == 0)
        await controls.set_manual(*place, Symbol("AAPL"), halted, tenant.principal)
        terms = RuleTerms(parameters={"quantity": str(turn + 1)})
        await rules.save_rule(address, "QTY_MAX", terms, "size", tenant.principal, None)
        await rules.save_rule(address, "QTY_MAX", None, "size", tenant.principal, None)
    return tenant


def alterations(tenant: Tenant, last: int) -> Iterator[Alteration]:
    """Each entry changed in each column, removed, inserted before, and exchanged with its neighbour."""
    organization = f"organization_id = '{tenant.account.organization_id}'"
    for number in range(1, last + 1):
        here = f"{organization} and entry_no = {number}"
        for column, value in _CHANGES.items():
            yield Alteration(Tampering.CHANGED, number, f"update audit_log set {column} = {value} where {here}")
        remove = f"delete from audit_log where {here}"
        close_up = _RENUMBER.format(sign="-", organization=organization, number=number)
        make_room = _RENUMBER.format(sign="+", organization=organization, number=number - 1)
        forge = _COPY.format(organization=organization, number=number, like=number + 1)
        yield Alteration(Tampering.REMOVED, number, remove)
        yield Alteration(Tampering.REMOVED, number, f"{remove}; {close_up}")
        yield Alteration(Tampering.INSERTED, number, f"{make_room}; {forge}")
        if number < last:
            exchange = "; ".join(
                f"update audit_log set entry_no = {after} where {organization} and entry_no = {before}"
                for before, after in ((number, -1), (number + 1, number), (-1, number + 1))
            )
            yield Alteration(Tampering.SWAPPED, number, exchange)
    after_the_last = _COPY.format(organization=organization, number=last + 1, like=last)
    yield Alteration(Tampering.INSERTED, last + 1, after_the_last)


def without_tail(tenant: Tenant, number: int) -> str:
    """Removes the entries after this one, and sets the head back."""
    organization = f"organization_id = '{tenant.account.organization_id}'"
    return (
        f"delete from audit_log where {organization} and entry_no > {number};"
        f"update audit_heads set (entry_no, chain_head) ="
        f" (select entry_no, hash from audit_log where {organization} and entry_no = {number}) where {organization}"
    )


class Undone(Exception):
    """Ends a transaction without a trace."""


async def verified_after(owner: Owner, statements: str, result: Verification | None = None) -> Verification:
    """The verification of the whole database with these changes, which are undone afterwards."""
    result = Verification() if result is None else result
    try:
        async with owner.transaction():
            await owner.execute(f"set local session_replication_role = replica; {statements}", timeout=60)
            await verify(owner, result)
            raise Undone
    except Undone:
        return result


async def verify(owner: Owner, result: Verification) -> Verification:
    async with owner.transaction():
        async for part in audit_log.chain_of(owner.cursor(audit_log.CHAINED_ENTRIES, None, prefetch=1000)):
            result.take(part)
    result.end()
    return result


async def append_some(pool: Pool, tenant: Tenant, entries: int) -> None:
    """Entries of one caller, each in its own transaction."""
    organization_id = tenant.account.organization_id
    for turn in range(entries):
        async with transaction(pool, Role.TENANT, organization_id) as connection:
            who = ("API_KEY", tenant.principal.id)
            await audit_log.append(connection, organization_id, new_id(), who, "o", "i", None, {"turn": turn})
