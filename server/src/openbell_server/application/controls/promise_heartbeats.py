"""Arm, renew, list and disarm promised heartbeats of a key or an account."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from uuid import UUID

from openbell_server.application.controls.ports.heartbeats import HeartbeatStore
from openbell_server.application.controls.ports.rules import RuleFilter
from openbell_server.application.controls.set_rules import Place, SetRules
from openbell_server.application.paging import Page, bounded, page_of, start_of
from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.findings import Scope
from openbell_server.domain.controls.heartbeats import Heartbeat, HeartbeatTerms
from openbell_server.domain.controls.rules import Address
from openbell_server.domain.errors import InvalidParameter, Problem


@dataclass(frozen=True, slots=True)
class PromiseHeartbeats:
    store: HeartbeatStore
    rules: SetRules

    async def beat(self, caller: Principal, place: Place, decode: Callable[[], Awaitable[HeartbeatTerms]]) -> Heartbeat:
        """Arm the promise or renew it. Raises heartbeat_missed if it was missed."""
        address = await self._enter(caller, place)
        return await self.store.beat(address, await decode(), caller)

    async def disarm(self, caller: Principal, place: Place) -> None:
        address = await self._enter(caller, place)
        if not await self.store.disarm(address, caller):
            raise Problem("not_found", "no heartbeats are promised here")

    async def list_at(
        self, caller: Principal, place: Place, scope: Scope | None, page: tuple[str | None, int | None]
    ) -> Page[Heartbeat]:
        """The promises of `scope` (None: of both) at `place` and below it."""
        address = await self.rules.enter(caller, place, Operation.READ_CONTROLS)
        wanted = RuleFilter(
            organization_id=caller.organization_id,
            scope=scope,
            account_id=address.account_id,
            subject=address.api_key_id,
            environment=caller.environment,
            account_ids=caller.account_ids,
            own_key=caller.id,
        )
        (cursor, limit), of, key = page, f"heartbeats {wanted}", self.rules.cursor_key
        after, rows = start_of(key, of, cursor), bounded(limit)
        return page_of(key, of, cursor, rows, await self.store.list_heartbeats(wanted, after, rows + 1))

    async def _enter(self, caller: Principal, place: Place) -> Address:
        """A key promises for itself, and need not name itself."""
        if place.scope is Scope.KEY:
            if caller.kind is PrincipalKind.API_KEY:
                place = replace(place, api_key_id=place.api_key_id or UUID(caller.id))
                if str(place.api_key_id) != caller.id:
                    raise Problem("permission_denied", "a key promises heartbeats for itself; an admin for any key")
            elif place.api_key_id is None:
                raise InvalidParameter("api_key_id", "is required for users with scope KEY", "required")
        return await self.rules.enter(caller, place, operation_at(place.scope))


def operation_at(scope: str | None) -> Operation:
    """The operation that a promise at this scope needs; one for an account is a control of the account."""
    return Operation.EDIT_CONTROLS if scope == Scope.ACCOUNT else Operation.PROMISE_HEARTBEATS
