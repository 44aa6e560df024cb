"""A world in which every cell of the authorization table can be called: organizations, accounts, keys, tokens."""

import asyncio
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from openbell_server.adapters.postgres.access.organizations import PostgresOrganizationStore, add_organization
from openbell_server.adapters.postgres.connection import Pool, Role, transaction
from openbell_server.domain.access.accounts import Environment, TradingAccount
from openbell_server.domain.access.principals import PERMISSIONS
from openbell_server.domain.identifiers import AccountId, IntentId, OrganizationId
from support.authorization.callers import LIVE, PAPER, Caller, Header, Home, Kind
from support.authorization.expected_answers import Cell
from support.authorization.table import Object
from support.builders.tenant import Tenant, a_key, a_limit_create, accept, an_account, new_id
from support.identity.bad_tokens import BAD_TOKENS
from support.identity.identity_provider import MACHINES, PEOPLE, good_token
from support.tenancy.statements import Owner
from support.tenancy.tenant_desk_commands import add_desk_commands

# Of the controls; intents are of another.
SYMBOL = "MSFT"
DENIED = "auth|denied"
IN_TWO = "auth|in-two"
_CONTROL = "account_id, symbol, created_at, updated_at, principal_type, principal_id"
_VALUES = "$2, $3, now(), now(), 'SYSTEM', 'tests'"
CONTROLS = (
    f"insert into symbol_controls (organization_id, {_CONTROL}, manually_disabled) values ($1, {_VALUES}, false)",
    f"insert into symbol_time_controls (organization_id, {_CONTROL}, trading_start) values ($1, {_VALUES}, '00:00')",
)
# A rule of whomever, that refuses nothing; what is removed is of another code than what is read.
RULE = (
    "insert into control_rules (organization_id, scope, subject, code, of_account, terms, created_at, updated_at,"
    " principal_type, principal_id) select $1, $2::text, $3, $4,"
    " case when $2::text in ('ACCOUNT', 'SYMBOL') then split_part($3, ' ', 1)::uuid end,"
    """ '{"mode": "SHADOW", "on_missing": null, "parameters": {"quantity": "1"}}', now(), now(), 'SYSTEM', 'tests'"""
    " on conflict (organization_id, scope, subject, code) do update set terms = excluded.terms"
)
READ_CODE, REMOVED_CODE = "QTY_MAX", "QTY_MIN"
WEBHOOK = (
    "insert into webhooks (organization_id, webhook_id, url, kinds, environment, created_at, updated_at,"
    " principal_type, principal_id) values ($1, $2, 'https://a.invalid/', '{2}', $3, now(), now(), 'SYSTEM', 'tests')"
)
HEARTBEAT = (
    "insert into heartbeats (organization_id, scope, subject, of_account, timeout_seconds, cancel_working, required,"
    " status, armed_at, last_beat_at, expires_at, principal_type, principal_id)"
    " select $1, $2::text, $3::text, case when $2::text = 'ACCOUNT' then $3::uuid end, 300, false, $2 = 'ACCOUNT',"
    " 'ARMED', now(), now(), now() + interval '1 hour', 'USER', 'tests' on conflict do nothing"
)
RECEIPT = "select receipt_id from intent_actions where intent_id = $1 and seq = 1"
CREDENTIAL = (
    "insert into credentials (organization_id, account_id, credential_id, broker, kind, hint, asked_at, created_at,"
    " updated_at) values ($1, $2, gen_random_uuid(), 'paper', 'paper_key', 'K7Q2', now(), now(), now())"
)
# An executor that answers at once, whatever it is asked.
ANSWERING = """
create function answer() returns trigger language plpgsql as $$
begin
    new.answered_at := new.asked_at;
    return new;
end $$;
create trigger answer before update of asked_at on credentials for each row execute function answer();
"""
# Of every place.
ACCOUNTS = tuple((environment, disabled) for environment in (PAPER, LIVE) for disabled in (False, True))
_TOKENS = {bad.name: bad for bad in BAD_TOKENS}


@dataclass(frozen=True, slots=True)
class Harness:
    """An account, with an intent that waits."""

    tenant: Tenant
    intent_id: IntentId
    receipt_id: UUID
    desk_command_id: UUID


@dataclass(slots=True)
class Place:
    """An organization with something of everything."""

    organization_id: OrganizationId
    external_id: str
    harnesses: dict[tuple[str, bool], Harness]
    # By environment.
    webhooks: dict[str, UUID]
    # By caller: the id and the text of its key.
    keys: dict[str, tuple[UUID, str]] = field(default_factory=dict)


@dataclass(slots=True)
class Members:
    """Implements IdentityProvider: one user belongs to a second organization, and everybody may be deleted."""

    second: str = ""
    deleted: set[str] = field(default_factory=set)

    async def memberships(self, user_id: str) -> frozenset[str]:
        return frozenset({self.second}) if user_id == IN_TWO else frozenset()

    async def delete_user(self, user_id: str) -> None:
        self.deleted.add(user_id)


@dataclass(slots=True)
class World:
    """All places; they are made when a cell first needs them."""

    pool: Pool
    owner: Owner
    members: Members
    places: dict[tuple[bool, bool, frozenset[str]], Place] = field(default_factory=dict)
    _making: asyncio.Lock = field(default_factory=asyncio.Lock)
    _foreign: Place | None = None
    _second: Place | None = None

    async def open(self) -> None:
        """What every cell may need."""
        await self.owner.execute(ANSWERING)
        await self.owner.execute(
            "insert into denied_users (provider, subject, reason) values ($1, $2, 'tests')", PEOPLE.provider, DENIED
        )
        self._foreign = await self._make(frozenset(), internal=False)
        self._second = await self._make(frozenset(), internal=False)
        self.members.second = self._second.external_id

    @property
    def foreign(self) -> Place:
        assert self._foreign is not None
        return self._foreign

    @property
    def second(self) -> Place:
        """The other organization of the user who belongs to two."""
        assert self._second is not None
        return self._second

    async def place_of(self, cell: Cell) -> Place:
        """Where the caller belongs."""
        internal, shut = cell.caller.home is Home.INTERNAL, cell.home is Home.SHUT
        async with self._making:
            kind = internal, shut, cell.entitlements
            if kind not in self.places:
                place = await self._make(cell.entitlements, internal=internal)
                if shut:
                    await self.owner.execute(
                        "update organizations set disabled = true where organization_id = $1", place.organization_id
                    )
                self.places[kind] = place
            return self.places[kind]

    async def _make(self, entitlements: frozenset[str], *, internal: bool) -> Place:
        organization = OrganizationId(new_id())
        external_id = f"org_{organization.hex}"
        async with transaction(self.pool, Role.OPERATOR, organization) as connection:
            await add_organization(
                connection,
                organization,
                external_id=external_id,
                provider=PEOPLE.provider,
                name="Acme",
                entitlements=entitlements,
            )
        await self.owner.execute(
            "update organizations set internal = $2 where organization_id = $1", organization, internal
        )
        harnesses = {}
        for environment, disabled in ACCOUNTS:
            account = await an_account(self.pool, organization, Environment(environment))
            tenant = Tenant(account, *await a_key(self.pool, organization, account.environment))
            intent_id = await self.an_intent(tenant)
            receipt_id = await self.owner.fetchval(RECEIPT, intent_id)
            desk_command_id = await add_desk_commands(self.pool, tenant)
            harnesses[environment, disabled] = Harness(tenant, intent_id, receipt_id, desk_command_id)
            for control in CONTROLS:
                await self.owner.execute(control, organization, account.id, SYMBOL)
            await self.owner.execute(CREDENTIAL, organization, account.id)
            for scope, subject in (("ACCOUNT", f"{account.id}"), ("SYMBOL", f"{account.id} {SYMBOL}")):
                await self.owner.execute(RULE, organization, scope, subject, READ_CODE)
            await self.owner.execute(
                RULE, organization, "KEY", harnesses[environment, disabled].tenant.principal.id, READ_CODE
            )
            if disabled:
                await self.owner.execute("update accounts set disabled = true where account_id = $1", account.id)
        await self.owner.execute(RULE, organization, "ORGANIZATION", "", READ_CODE)
        webhooks = {environment: await self.a_webhook(organization, environment) for environment in (PAPER, LIVE)}
        return Place(organization, external_id, harnesses, webhooks)

    async def a_webhook(self, organization_id: OrganizationId, environment: str) -> UUID:
        """One that a key of the environment made."""
        webhook_id = new_id()
        async with transaction(self.pool, Role.TENANT, organization_id) as connection:
            await connection.execute(WEBHOOK, organization_id, webhook_id, environment)
        return webhook_id

    async def a_rule_to_remove(self, place: Place, scope: str, subject: str) -> None:
        """One that nobody else's call is about."""
        async with transaction(self.pool, Role.TENANT, place.organization_id) as connection:
            await connection.execute(RULE, place.organization_id, scope.upper(), subject, REMOVED_CODE)

    async def a_heartbeat(self, place: Place, scope: str, subject: str) -> None:
        """One that nobody else's call is about."""
        async with transaction(self.pool, Role.TENANT, place.organization_id) as connection:
            await connection.execute(HEARTBEAT, place.organization_id, scope, subject)

    async def an_intent(self, tenant: Tenant) -> IntentId:
        """One more intent that waits; made below the transport, so that nothing of the table is asked."""
        store = PostgresOrganizationStore(self.pool)
        while True:
            account = await store.find_account(tenant.account.organization_id, tenant.account.id)
            assert account is not None
            (accepted,) = await accept(self.pool, Tenant(account, tenant.principal, "").submission(a_limit_create()))
            # Another cell may have changed a rule since the account was read.
            if accepted.status != "STALE_CONTROLS":
                assert accepted.status == "ACCEPTED", accepted
                return accepted.intent_id

    async def an_account_to_sign_in(self, place: Place, environment: str, *, disabled: bool) -> AccountId:
        """One with a credential, for a call that changes it: commands to the other accounts are not held up."""
        account = await an_account(self.pool, place.organization_id, Environment(environment))
        async with transaction(self.pool, Role.TENANT, place.organization_id) as connection:
            await connection.execute(CREDENTIAL, place.organization_id, account.id)
            await connection.execute("update accounts set disabled = $2 where account_id = $1", account.id, disabled)
        return account.id

    async def key_of(self, place: Place, caller: Caller) -> tuple[UUID, str]:
        """The key of a caller, disabled, revoked or expired as its flaw says."""
        async with self._making:
            if caller.name not in place.keys:
                place.keys[caller.name] = await self.a_key(place, caller.environment, caller.holds & PERMISSIONS)
                change = {
                    "disabled": "disabled = true",
                    "revoked": "revoked_at = clock_timestamp()",
                    "expired": "expires_at = clock_timestamp() - interval '1 hour'",
                }.get(caller.flaw)
                if change:
                    key_id = place.keys[caller.name][0]
                    await self.owner.execute(f"update api_keys set {change} where api_key_id = $1", key_id)
            return place.keys[caller.name]

    async def a_key(self, place: Place, environment: str, permissions: frozenset[str]) -> tuple[UUID, str]:
        principal, text = await a_key(self.pool, place.organization_id, Environment(environment), permissions)
        return UUID(principal.id), text

    def account_at(self, place: Place, cell: Cell) -> TradingAccount | None:
        """The account that the call is aimed at, if it is there."""
        harness = self.harness_at(place, cell)
        return harness.tenant.account if harness else None

    def harness_at(self, place: Place, cell: Cell) -> Harness | None:
        if cell.object is Object.MISSING:
            return None
        where = self.foreign if cell.object is Object.FOREIGN else place
        return where.harnesses[cell.environment, cell.object is Object.DISABLED_ACCOUNT]

    async def headers_of(self, place: Place, cell: Cell) -> list[tuple[str, str]]:
        """The credential and the organization that the caller sends."""
        caller = cell.caller
        sent: list[tuple[str, str]] = []
        if caller.kind in {Kind.API_KEY, Kind.TWO}:
            sent.append(("x-api-key", (await self.key_of(place, caller))[1]))
        token = _token_of(place, cell)
        if token is not None:
            sent.append(("authorization", f"Bearer {token}"))
        named = {
            Header.OWN: str(place.organization_id),
            Header.FOREIGN: str(self.foreign.organization_id),
            Header.UNKNOWN: str(uuid4()),
            Header.MALFORMED: "mine",
        }.get(caller.header)
        return [*sent, ("x-organization-id", named)] if named else sent


def _token_of(place: Place, cell: Cell) -> str | None:
    caller = cell.caller
    if caller.kind is Kind.SERVICE:
        return good_token("EdDSA", MACHINES, sub="machine", scope=" ".join(sorted(caller.holds)))
    if caller.kind is Kind.NOBODY and caller.flaw in _TOKENS:
        return _TOKENS[caller.flaw].make()
    if caller.kind is not Kind.USER and caller.kind is not Kind.TWO and caller.flaw != "denied":
        return None
    claims: dict[str, str | None] = {
        "sub": _subject_of(cell),
        "org_id": {Home.NONE: None, Home.UNKNOWN: "org_of_nobody"}.get(caller.home, place.external_id),
        "role": caller.role,
    }
    return good_token("EdDSA", PEOPLE, **claims)


def _subject_of(cell: Cell) -> str:
    if cell.caller.flaw == "denied":
        return DENIED
    if cell.row.name == "delete me":
        # Whoever is deleted here is nobody else's caller.
        return f"auth|{uuid4()}"
    return IN_TWO if cell.caller.in_two else f"auth|{cell.caller.name}"
