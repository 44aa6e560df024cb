"""Faults in events: gaps, resume tokens, links between events, filters, access."""

from typing import Final

from proof.sabotages.fault import FunctionFault, SourceFault

FAULTS: Final = (
    SourceFault(
        name="a page hides that events before it were removed",
        file="application/events/read_events.py",
        old=" if position < floor else None",
        new=" if position < 0 else None",
        tests=("unit/application/test_read_events.py::test_asking_below_what_is_kept_says_what_is_missing",),
    ),
    SourceFault(
        name="a resume token skips one event",
        file="application/events/follow_events.py",
        old='f"events {event.account_id}", event.number)',
        new='f"events {event.account_id}", event.number + 1)',
        tests=("integration/stream/test_subscribe_events.py::test_a_token_resumes_with_the_next_event",),
    ),
    SourceFault(
        name="prev_seq names an event that the filter left out",
        file="application/events/follow_events.py",
        old="token, entry)\n                previous = position\n",
        new="token, entry)\n            previous = position\n",
        tests=("integration/stream/test_subscribe_events.py::test_a_filtered_stream_links_its_events_by_prev_seq",),
    ),
    SourceFault(
        name="a resume token is accepted for another account",
        file="domain/events/cursors.py",
        old="return hmac.digest(key, scope.encode() +",
        new="return hmac.digest(key, scope[:6].encode() +",
        tests=("unit/domain/test_cursors.py::test_a_token_of_one_account_opens_for_no_other",),
    ),
    SourceFault(
        name="a revoked key receives the rest of its batch",
        file="application/events/follow_events.py",
        old="if access.ended is not None or self.draining.is_set():",
        new="if self.draining.is_set():",
        tests=(
            "unit/application/test_follow_events.py::test_a_revoked_key_receives_not_one_event_more_of_the_page_it_is_in",
        ),
    ),
    SourceFault(
        name="a symbol filter passes events of other symbols",
        file="application/events/read_events.py",
        old="event.symbol is None or event.symbol in self.symbols",
        new="event.symbol is not None",
        tests=("integration/rest/test_events.py::test_pages_join_and_every_event_says_which_came_before",),
    ),
    FunctionFault(
        name="pruning leaves a gap after an event that is not removed",
        function="prune_events",
        old="min(o.event_no) filter (where o.occurred_at >= v_before) - 1, ",
        new="max(o.event_no) filter (where o.occurred_at < v_before), ",
        tests=("integration/test_event_pruning.py::test_an_old_event_behind_a_young_one_waits_for_it",),
    ),
)
