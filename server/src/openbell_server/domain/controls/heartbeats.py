"""Promised heartbeats: a key or an account that misses them is halted."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from openbell_server.domain.access.principals import Principal, PrincipalKind
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import Address, RuleTerms, StoredRule, SwitchState
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import OrganizationId

TIMEOUT_SECONDS_MIN: Final = 5
TIMEOUT_SECONDS_MAX: Final = 300
# The principal id of the halts, and the code at the start of their reason.
PRINCIPAL_ID: Final = "heartbeat"
HEARTBEAT_LOST: Final = "HEARTBEAT_LOST"
# The scopes that can promise heartbeats.
SCOPES: Final = (Scope.ACCOUNT, Scope.KEY)


class HeartbeatStatus(StrEnum):
    """Whether the timer of a promise runs, or a heartbeat was missed."""

    ARMED = "ARMED"
    # It was missed and its scope was halted. It is not counted again until it is armed again.
    EXPIRED = "EXPIRED"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatTerms:
    timeout_seconds: int
    # Whether the halt also cancels working orders.
    cancel_working: bool

    def __post_init__(self) -> None:
        if not TIMEOUT_SECONDS_MIN <= self.timeout_seconds <= TIMEOUT_SECONDS_MAX:
            message = f"must be {TIMEOUT_SECONDS_MIN} to {TIMEOUT_SECONDS_MAX}; DELETE disarms"
            raise InvalidCommand("timeout_seconds", message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A promise of heartbeats and when the last one came, all by the database's clock."""

    address: Address
    terms: HeartbeatTerms
    # Somebody else than the key itself set it: a key needs the permission control:loosen to loosen it.
    required: bool
    status: HeartbeatStatus
    armed_at: datetime
    last_beat_at: datetime
    expires_at: datetime
    # Who set the terms: a type and an id.
    principal: tuple[str, str]


def system_principal(organization_id: OrganizationId) -> Principal:
    """Who halts the scope of a missed heartbeat."""
    return Principal(
        kind=PrincipalKind.SYSTEM,
        id=PRINCIPAL_ID,
        organization_id=organization_id,
        environment=None,
        permissions=frozenset(),
    )


def is_own(address: Address, principal: Principal) -> bool:
    """Whether the caller is the key that the promise is about."""
    return principal.kind is PrincipalKind.API_KEY and principal.id == address.api_key_id


def halt_reason(heartbeat: Heartbeat) -> str:
    seconds = heartbeat.terms.timeout_seconds
    return f"{HEARTBEAT_LOST}: no heartbeat for {seconds} s; the last came at {heartbeat.last_beat_at.isoformat()}"


def missed(heartbeat: Heartbeat) -> Problem:
    """The answer to a caller whose promise was missed before the request."""
    scope = "key" if heartbeat.address.scope is Scope.KEY else "account"
    detail = f"no heartbeat came until {heartbeat.expires_at.isoformat()}, so the {scope} is halted"
    return Problem("heartbeat_missed", detail)


def halting_terms(before: StoredRule | None, *, cancel_working: bool) -> RuleTerms | None:
    """The switch after a missed heartbeat: HALTED for good. None if it stops as much already, now and later.

    A switch that cancels working orders continues to do so. Temporary terms end.
    """
    now_and_later = [] if before is None else [before.terms, *([before.override.terms] if before.override else [])]
    cancels = cancel_working or any(_cancels(terms) for terms in now_and_later)
    if now_and_later and all(_is_halted(terms) and _cancels(terms) is cancels for terms in now_and_later):
        return None
    return RuleTerms(parameters={"status": SwitchState.HALTED, "cancel_working": cancels})


def _is_halted(terms: RuleTerms | None) -> bool:
    return terms is not None and terms.mode is Mode.HARD and terms.parameters.get("status") == SwitchState.HALTED


def _cancels(terms: RuleTerms | None) -> bool:
    return terms is not None and bool(terms.parameters.get("cancel_working"))
