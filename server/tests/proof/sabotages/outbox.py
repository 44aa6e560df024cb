"""Faults in the outbox: claims, order, publishing."""

from typing import Final

from proof.sabotages.fault import SourceFault

FAULTS: Final = (
    SourceFault(
        name="a row is completed with an outdated claim token",
        file="adapters/postgres/events/outbox.sql",
        old="t.claim_token and o.status = 'processing' and o.resolved_at is null\nreturning o.outbox_id;",
        new="o.claim_token and o.status = 'processing' and o.resolved_at is null\nreturning o.outbox_id;",
        tests=("integration/test_outbox_claims.py::test_a_stale_token_resolves_nothing_and_releases_nothing",),
    ),
    SourceFault(
        name="rows are completed although they were not published",
        file="application/events/relay_outbox.py",
        old="done = confirmed_in_order(rows, confirmed)",
        new="done = list(rows)",
        tests=(
            "integration/test_outbox_claims.py::test_a_failed_publish_is_released_for_later_and_leaves_others_completed",
        ),
    ),
    SourceFault(
        name="a failed row does not stop the later rows of its account",
        file="domain/events/outbox.py",
        old="elif row.in_order_of not in broken:",
        new="else:",
        tests=(
            "unit/domain/test_outbox.py::test_no_row_after_an_unconfirmed_one_of_its_account_is_resolved_and_other_accounts_go_on",
        ),
    ),
    SourceFault(
        name="a row that always fails is claimed without end",
        file="adapters/postgres/events/outbox.sql",
        old="and o.attempts >= :attempts_max\n",
        new="and o.attempts < 0 and :attempts_max > 0\n",
        tests=(
            "integration/test_outbox_claims.py::test_a_row_handed_out_ten_times_is_failed_by_the_next_claim_and_never_handed_out_again",
        ),
    ),
    SourceFault(
        name="a paused relay completes rows after its claim expired",
        file="application/events/relay_outbox.py",
        old="return self.monotonic() - claimed_after >= HOLD_SECONDS",
        new="return False",
        tests=(
            "integration/test_outbox_claims.py::test_a_relay_paused_while_it_publishes_resolves_and_releases_nothing",
        ),
    ),
)
