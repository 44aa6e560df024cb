"""The machine of an action against the table of the design, pair by pair."""

from itertools import product

import pytest

from openbell_server.domain.errors import IllegalTransition
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState, Reason, advance, may_become

# By hand, from the design. A broker that answers in one step takes DISPATCHING → ACKED, past SENT.
TABLE = {
    "QUEUED": "DISPATCHING SKIPPED",
    "DISPATCHING": "SENT ACKED REFUSED UNKNOWN FAILED",
    "SENT": "ACKED REFUSED UNKNOWN",
    "UNKNOWN": "ACKED REFUSED FAILED ABANDONED",
    "ACKED": "",
    "REFUSED": "ACKED",
    "SKIPPED": "",
    "FAILED": "ACKED",
    "ABANDONED": "ACKED",
}
ALLOWED = {(state, following) for state, next_states in TABLE.items() for following in next_states.split()}


def test_the_table_names_every_state() -> None:
    assert set(TABLE) == {state.value for state in ActionState}


@pytest.mark.parametrize(("state", "following"), list(product(ActionState, ActionState)))
def test_a_step_is_allowed_exactly_where_the_table_has_it(state: ActionState, following: ActionState) -> None:
    if (state.value, following.value) in ALLOWED:
        assert may_become(state, following)
        assert advance(state, following) is following
    else:
        assert not may_become(state, following)
        with pytest.raises(IllegalTransition, match=f"from {state} to {following}"):
            advance(state, following)


def test_a_state_is_settled_exactly_when_nothing_follows() -> None:
    assert {state.value for state in SETTLED} == {"ACKED", "REFUSED", "SKIPPED", "FAILED", "ABANDONED"}


def test_nothing_leads_back_to_the_queue_or_through_the_door_twice() -> None:
    assert [pair for pair in ALLOWED if pair[1] == "QUEUED"] == []
    assert [pair for pair in ALLOWED if pair[1] == "DISPATCHING"] == [("QUEUED", "DISPATCHING")]


def test_the_words_of_a_broker_are_kept_in_a_form_that_can_be_stored() -> None:
    reason = Reason("BROKER_REFUSED", "E\0\ud800", "no\0 money \udfff€")
    assert (reason.broker_code, reason.broker_text) == ("E��", "no� money �€")
