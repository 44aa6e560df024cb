"""Set and read rules and switches of an organization, an account, a symbol of an account, or an API key."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from openbell_server.application.access.find_account import find_account
from openbell_server.application.access.ports.account_records import AccountStore
from openbell_server.application.access.ports.api_key_records import ApiKeyRecords
from openbell_server.application.controls.ports.rules import RuleChange, RuleFilter, RuleStore
from openbell_server.application.controls.symbols import symbol_at
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.application.ports.broker import BrokerDefinition
from openbell_server.application.ports.hints import Hints
from openbell_server.domain.access.authorization import (
    Operation,
    require_entitlement,
    require_environment,
)
from openbell_server.domain.access.principals import Principal
from openbell_server.domain.controls.catalogue import SETTABLE, checked_parameters
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.kinds.losses import LOSS_MAX
from openbell_server.domain.controls.rules import SWITCH, Address, Override, RuleTerms, StoredRule, SwitchState
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.names import check_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place that a request names; not yet checked to exist."""

    scope: Scope
    account_id: AccountId | None = None
    # As the caller spells it.
    symbol: str | None = None
    api_key_id: UUID | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRule:
    """New terms of a rule, permanent or for a time, and the reason."""

    change: RuleTerms | Override
    reason: str

    @property
    def terms(self) -> RuleTerms:
        return self.change.terms if isinstance(self.change, Override) else self.change


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedSwitch:
    """A new state of a switch, whether working orders are cancelled with it, and the reason."""

    state: SwitchState
    cancel_working: bool
    reason: str


@dataclass(frozen=True, slots=True)
class SetRules:
    """Rules of one organization; spellings of a symbol are resolved by the account's broker."""

    accounts: AccountStore
    keys: ApiKeyRecords
    rules: RuleStore
    brokers: Mapping[str, BrokerDefinition]
    hints: Hints
    cursor_key: bytes

    async def put(
        self,
        caller: Principal,
        place: Place,
        code: str,
        decode: Callable[[], Awaitable[WantedRule]],
        expected: Collection[int] | None,
    ) -> StoredRule:
        """Set the rule's permanent terms, or terms for a time."""
        address = await self.enter(caller, place, edit_at(place.scope))
        _require_code(code)
        wanted = await decode()
        check_reason("reason", wanted.reason)
        checked_parameters(code, place.scope, wanted.terms.parameters)
        if code == LOSS_MAX.code and place.api_key_id is not None:
            await self._require_accounts(caller, place.api_key_id)
        saved = await self._save(address, code, wanted.change, wanted.reason, caller, expected)
        assert saved is not None, "a rule that was just set exists"
        return saved

    async def remove(
        self, caller: Principal, place: Place, code: str, reason: str | None, expected: Collection[int] | None
    ) -> None:
        """Remove the rule, and its terms for a time."""
        address = await self.enter(caller, place, edit_at(place.scope))
        _require_code(code)
        await self._save(address, code, None, reason, caller, expected)

    async def show(self, caller: Principal, place: Place, code: str) -> StoredRule:
        address = await self.enter(caller, place, Operation.READ_CONTROLS)
        _require_code(code)
        found = await self.rules.find_rule(address, code)
        if found is None:
            raise Problem("not_found", f"no rule {code} is set here")
        return found

    async def list_at(
        self,
        caller: Principal,
        place: Place,
        scope: Scope | None,
        page: tuple[str | None, int | None],
        *,
        switches: bool,
    ) -> tuple[Address, Page[StoredRule]]:
        """The rules, or the switches that were ever set, of `scope` (None: of every scope) at `place` and below it."""
        address, wanted = await self._filter(caller, place, scope)
        wanted = replace(wanted, switches=switches)
        cursor, limit = page
        after, rows = start_of(self.cursor_key, repr(wanted), cursor), bounded(limit)
        found = await self.rules.list_rules(wanted, after, rows + 1)
        return address, page_of(self.cursor_key, repr(wanted), cursor, rows, found)

    async def changes(
        self,
        caller: Principal,
        place: Place,
        scope: Scope | None,
        code: str | None,
        page: tuple[str | None, int | None],
    ) -> Page[RuleChange]:
        """Changes of rules and switches at `place` and below it, the newest first."""
        _, wanted = await self._filter(caller, place, scope)
        wanted = replace(wanted, code=code)
        (cursor, limit), of = page, f"changes {wanted}"
        before, rows = start_of(self.cursor_key, of, cursor), bounded(limit)
        found = await self.rules.list_changes(wanted, before or None, rows + 1)
        return page_of(self.cursor_key, of, cursor, rows, found)

    async def _filter(self, caller: Principal, place: Place, scope: Scope | None) -> tuple[Address, RuleFilter]:
        """The place, and what is there and below it."""
        address = await self.enter(caller, place, Operation.READ_CONTROLS)
        return address, RuleFilter(
            organization_id=caller.organization_id,
            scope=scope,
            account_id=address.account_id,
            subject=address.subject if address.symbol or address.api_key_id else None,
            environment=caller.environment,
            account_ids=caller.account_ids,
            own_key=caller.id,
        )

    async def put_switch(
        self,
        caller: Principal,
        place: Place,
        decode: Callable[[], Awaitable[WantedSwitch]],
        expected: Collection[int] | None,
    ) -> StoredRule:
        """Set the switch."""
        address = await self.enter(caller, place, edit_at(place.scope))
        wanted = await decode()
        check_reason("reason", wanted.reason)
        if wanted.cancel_working and wanted.state is SwitchState.ACTIVE:
            raise InvalidCommand("cancel_working", "is only for a switch that stops something")
        parameters = {"status": wanted.state, "cancel_working": wanted.cancel_working}
        saved = await self._save(address, SWITCH, RuleTerms(parameters=parameters), wanted.reason, caller, expected)
        assert saved is not None, "a switch that was just set exists"
        return saved

    async def _save(
        self,
        address: Address,
        code: str,
        change: RuleTerms | Override | None,
        reason: str | None,
        caller: Principal,
        expected: Collection[int] | None,
    ) -> StoredRule | None:
        saved = await self.rules.save_rule(address, code, change, reason, caller, expected)
        if address.account_id is not None:
            self.hints.events_were_written([address.account_id])
        return saved

    async def enter(self, caller: Principal, place: Place, operation: Operation) -> Address:
        """The place, if it exists and the caller may do this there."""
        if place.account_id is not None:
            return await self._enter_account(caller, place, place.account_id, operation)
        standing = await self.rules.standing(caller.organization_id)
        if standing is None:
            raise Problem("not_found", "there is no such organization")
        if place.api_key_id is not None:
            key = await self.keys.find(caller.organization_id, place.api_key_id)
            if key is None or (caller.account_ids is not None and caller.id != str(place.api_key_id)):
                raise Problem("not_found", "there is no such API key")
            require_environment(caller, key.environment)
        require_entitlement(operation, standing.entitlements)
        if operation is not Operation.READ_CONTROLS and standing.disabled:
            raise Problem("organization_disabled", "the organization is disabled")
        api_key_id = None if place.api_key_id is None else str(place.api_key_id)
        return Address(organization_id=caller.organization_id, scope=place.scope, api_key_id=api_key_id)

    async def _require_accounts(self, caller: Principal, api_key_id: UUID) -> None:
        """Raises Problem for a key of every account: executors measure only losses that a rule limits."""
        key = await self.keys.find(caller.organization_id, api_key_id)
        if key is None or key.account_ids is None:
            why = "LOSS_MAX at the scope KEY needs a key with account_ids, whose losses are measured"
            raise InvalidCommand("/code", f"cannot be set here: {why}; set it at the accounts instead")

    async def _enter_account(
        self, caller: Principal, place: Place, account_id: AccountId, operation: Operation
    ) -> Address:
        account = await find_account(self.accounts, caller, operation, account_id)
        symbol = None if place.symbol is None else symbol_at(self.brokers, account, place.symbol)
        return Address(organization_id=caller.organization_id, scope=place.scope, account_id=account_id, symbol=symbol)


def edit_at(scope: str | None) -> Operation:
    """The operation that a change at this scope needs."""
    is_of_account = scope in (Scope.ACCOUNT, Scope.SYMBOL)
    return Operation.EDIT_CONTROLS if is_of_account else Operation.EDIT_ORGANIZATION_CONTROLS


def switch_state(rule: StoredRule) -> SwitchState:
    assert rule.terms is not None, "a switch has permanent terms only"
    return SwitchState(rule.terms.parameters["status"])


def _require_code(code: str) -> None:
    if code not in SETTABLE:
        raise Problem("not_found", f"there is no such rule; the codes are {', '.join(SETTABLE)}")
