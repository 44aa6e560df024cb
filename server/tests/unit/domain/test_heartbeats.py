"""What a missed heartbeat makes of a switch, and which promises can be kept."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.heartbeats import HeartbeatTerms, halting_terms
from openbell_server.domain.controls.rules import SWITCH, Address, Override, RuleTerms, StoredRule
from openbell_server.domain.errors import InvalidCommand
from openbell_server.domain.identifiers import OrganizationId

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
STATES = ("ACTIVE", "REDUCE_ONLY", "HALTED", None)


def terms(status: str | None, *, cancels: bool = False, mode: Mode = Mode.HARD) -> RuleTerms | None:
    # An operator's switch may leave cancel_working out.
    parameters: dict[str, object] = {"status": status} | ({"cancel_working": True} if cancels else {})
    return None if status is None else RuleTerms(mode=mode, parameters=parameters)


def a_switch(permanent: RuleTerms | None, temporary: RuleTerms | None) -> StoredRule:
    return StoredRule(
        address=Address(organization_id=OrganizationId(UUID(int=1)), scope=Scope.KEY, api_key_id="k"),
        code=SWITCH,
        terms=permanent,
        override=None if temporary is None else Override(terms=temporary, expires_at=NOON + timedelta(hours=1)),
        version=1,
        reason=None,
        created_at=NOON,
        updated_at=NOON,
        principal=("USER", "u"),
    )


def halts(found: RuleTerms | None) -> tuple[bool, bool]:
    assert found is not None
    return found.parameters["status"] == "HALTED", bool(found.parameters.get("cancel_working"))


@pytest.mark.parametrize("permanent", STATES)
@pytest.mark.parametrize("temporary", STATES)
@pytest.mark.parametrize("cancels", [True, False])
@pytest.mark.parametrize("cancelled_before", [True, False])
def test_whatever_was_set_it_is_halted_for_good_and_cancels_what_was_cancelled(
    permanent: str | None, temporary: str | None, *, cancels: bool, cancelled_before: bool
) -> None:
    before = a_switch(terms(permanent, cancels=cancelled_before), terms(temporary))
    wanted = halting_terms(before, cancel_working=cancels)
    cancels_after = cancels or (cancelled_before and permanent is not None)
    if wanted is not None:
        assert halts(wanted) == (True, cancels_after)
        return
    # Nothing changes only where everything stops as much already, now and once the temporary terms have ended.
    assert halts(before.terms) == (True, cancels_after)
    assert before.override is None or halts(before.override.terms) == (True, cancels_after)


def test_a_scope_without_a_switch_is_halted() -> None:
    assert halts(halting_terms(None, cancel_working=False)) == (True, False)


def test_a_switch_in_shadow_mode_stops_nothing_so_it_is_replaced() -> None:
    before = a_switch(terms("HALTED", mode=Mode.SHADOW), None)
    assert halting_terms(before, cancel_working=False) is not None


@pytest.mark.parametrize("seconds", [-1, 0, 4, 301])
def test_a_timeout_that_is_out_of_bounds_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidCommand, match="must be 5 to 300"):
        HeartbeatTerms(timeout_seconds=seconds, cancel_working=False)
