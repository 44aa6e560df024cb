"""Trading accounts: what commands need, and what administrators manage."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final

from openbell_server.domain.access.credentials import NOT_READY, CredentialStatus
from openbell_server.domain.errors import InvalidCommand, Problem
from openbell_server.domain.identifiers import AccountId, OrganizationId
from openbell_server.domain.names import check_name, check_reason
from openbell_server.domain.time_zones import check_zone

TRADING_LIVE: Final = "trading_live"
CONTROLS_PREMIUM: Final = "controls_premium"
ENTITLEMENTS: Final = frozenset({TRADING_LIVE, CONTROLS_PREMIUM})
# Of a new organization, unless the operator sells plans. Live trading is always granted by an operator.
DEFAULT_ENTITLEMENTS: Final = frozenset({CONTROLS_PREMIUM})
EXTERNAL_ID_LENGTH_MAX: Final = 128
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)


class Environment(StrEnum):
    """Where an account trades; it never changes."""

    PAPER = "paper"
    LIVE = "live"


class SessionState(StrEnum):
    """The state of an account at the executors: only in READY commands are sent to the broker at once."""

    # Final.
    CLOSED = "CLOSED"
    # The credential is missing or not valid.
    BLOCKED = "BLOCKED"
    # No executor holds it, or it is not signed in at its broker yet.
    CONNECTING = "CONNECTING"
    # Our orders are being compared with the broker's.
    RECONCILING = "RECONCILING"
    # The broker cannot be reached, or its feed sends nothing although it should.
    DEGRADED = "DEGRADED"
    # Halted by the platform: only cancels are sent until an operator resumes it.
    HALTED = "HALTED"
    READY = "READY"


class PaperProfile(StrEnum):
    """How strictly the paper broker treats client ids; each is an id class of brokers."""

    A = "A"
    W = "W"
    B = "B"
    C = "C"


PAPER: Final = "paper"
# The platform treats a profile like a broker of its own.
_BROKER_OF: Final = {
    profile: PAPER if profile is PaperProfile.A else f"{PAPER}-{profile.lower()}" for profile in PaperProfile
}
_PROFILE_OF: Final = {broker: profile for profile, broker in _BROKER_OF.items()}


def broker_with_profile(broker: str, profile: PaperProfile | None) -> str:
    """The name under which the platform has the broker; raises InvalidCommand for a profile of another broker."""
    if broker != broker_and_profile(broker)[0]:
        raise InvalidCommand("broker", f"must be {PAPER} with the profile {_PROFILE_OF[broker]}")
    if profile is None:
        return broker
    if broker != PAPER:
        raise InvalidCommand("profile", f"is only for the broker {PAPER}")
    return _BROKER_OF[profile]


def broker_and_profile(name: str) -> tuple[str, PaperProfile | None]:
    """The broker as callers know it, and its profile; the inverse of broker_with_profile."""
    profile = _PROFILE_OF.get(name)
    return (name, None) if profile is None else (PAPER, profile)


def known_brokers(names: Collection[str]) -> list[str]:
    """The brokers as callers know them."""
    return sorted({broker_and_profile(name)[0] for name in names})


def names_of_broker(broker: str) -> list[str]:
    """All names under which the platform has the broker."""
    return list(_PROFILE_OF) if broker == PAPER else [broker]


@dataclass(frozen=True, slots=True, kw_only=True)
class TradingAccount:
    """An account with its organization's entitlements and the epochs of its controls."""

    id: AccountId
    organization_id: OrganizationId
    name: str
    broker: str
    environment: Environment
    slot: int
    disabled: bool
    organization_disabled: bool
    entitlements: frozenset[str]
    organization_epoch: int
    account_epoch: int
    # The database's clock at the read.
    now: datetime = field(compare=False)
    closed: bool = False
    credential_status: CredentialStatus = CredentialStatus.NOT_REQUIRED
    # The zone of windows that name none.
    timezone: str = "UTC"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAccount:
    name: str
    broker: str
    environment: Environment
    external_account_id: str | None = None
    base_currency: str = "USD"
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.external_account_id is not None:
            _check_external_id(self.external_account_id)
        if not _CURRENCY.fullmatch(self.base_currency):
            raise InvalidCommand("base_currency", "must be the three capital letters of a currency, such as USD")
        check_zone(self.timezone)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRecord:
    """An account as its administrators see it."""

    id: AccountId
    organization_id: OrganizationId
    name: str
    broker: str
    environment: Environment
    external_account_id: str | None
    base_currency: str
    timezone: str
    disabled: bool
    disabled_reason: str | None
    credential_status: CredentialStatus
    session_status: SessionState
    closed_at: datetime | None
    created_at: datetime
    updated_at: datetime
    version: int
    # Why and when the platform halted it; None if it did not.
    halt_code: str | None = None
    halt_detail: str | None = None
    halted_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountChange:
    """Changes to an account; None keeps a value."""

    name: str | None = None
    external_account_id: str | None = None
    timezone: str | None = None
    disabled: bool | None = None
    disabled_reason: str | None = None

    def __post_init__(self) -> None:
        if self.name is not None:
            check_name(self.name)
        if self.external_account_id is not None:
            _check_external_id(self.external_account_id)
        if self.timezone is not None:
            check_zone(self.timezone)
        check_reason("disabled_reason", self.disabled_reason)


def changed(account: AccountRecord, change: AccountChange) -> AccountRecord:
    """The account after the change; raises Problem if it is not allowed. Enabling removes the reason."""
    if account.closed_at is not None:
        raise Problem("account_closed", "the account is closed, which is for good")
    known = account.external_account_id
    if known is not None and change.external_account_id not in {None, known}:
        raise Problem("external_account_mismatch", "external_account_id is set, which is for good")
    disabled = account.disabled if change.disabled is None else change.disabled
    if change.disabled_reason is not None and not disabled:
        raise InvalidCommand("disabled_reason", "is only for an account that is disabled")
    return replace(
        account,
        name=account.name if change.name is None else change.name,
        external_account_id=known or change.external_account_id,
        timezone=account.timezone if change.timezone is None else change.timezone,
        disabled=disabled,
        disabled_reason=(change.disabled_reason or account.disabled_reason) if disabled else None,
    )


def require_version(version: int, expected: Collection[int] | None) -> None:
    """Raises Problem if the version is not among the expected ones; None expects nothing."""
    if expected is not None and version not in expected:
        raise Problem("version_mismatch", f"it is at version {version}")


def session_status(
    *,
    closed: bool,
    credential_status: CredentialStatus,
    has_executor: bool,
    is_connected: bool,
    is_held_back: bool,
    is_compared: bool,
    is_signing_in: bool,
    is_halted: bool = False,
) -> SessionState:
    """The state of an account at the executors: the first that applies.

    `is_held_back`: after a restore, until the broker was queried. `is_compared`: our orders match the broker's.
    """
    if closed:
        return SessionState.CLOSED
    if is_halted:
        return SessionState.HALTED
    if credential_status in NOT_READY:
        return SessionState.BLOCKED
    if not has_executor or credential_status is CredentialStatus.UNVERIFIED or is_signing_in:
        return SessionState.CONNECTING
    if not is_connected:
        return SessionState.DEGRADED
    return SessionState.READY if is_compared and not is_held_back else SessionState.RECONCILING


def _check_external_id(text: str) -> None:
    if not (1 <= len(text) <= EXTERNAL_ID_LENGTH_MAX and text.isprintable() and text == text.strip()):
        message = f"must be 1 to {EXTERNAL_ID_LENGTH_MAX} printable characters without spaces around them"
        raise InvalidCommand("external_account_id", message)
