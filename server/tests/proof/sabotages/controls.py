"""Faults in controls: comparisons, modes, exemptions, expiry, halts."""

from typing import Final

from proof.sabotages.fault import SourceFault

FAULTS: Final = (
    SourceFault(
        name="an order at exactly the value limit is rejected",
        file="domain/controls/kinds/prices.py",
        old="passes=observed <= limit,",
        new="passes=observed < limit,",
        tests=("unit/domain/test_control_kinds.py::test_a_rule_decides_its_case",),
    ),
    SourceFault(
        name="an order at the price of our own open order is accepted",
        file="adapters/postgres/intents/accept_with_counts.sql",
        old="then w.limit_price <= :limit_price::numeric",
        new="then w.limit_price < :limit_price::numeric",
        tests=("integration/test_self_match.py::test_an_order_that_would_meet_our_own_is_refused_from_its_limit_on",),
    ),
    SourceFault(
        name="the value of a day is read without a lock",
        file="adapters/postgres/intents/accept_with_counts.py",
        old="read = _queries.lock_day_values if lock else _queries.read_day_values",
        new="read = _queries.read_day_values",
        tests=("integration/test_day_values.py::test_orders_are_accepted_up_to_the_value_of_the_day_and_no_further",),
    ),
    SourceFault(
        name="buying power is free again as soon as the broker answered",
        file="adapters/postgres/intents/accept_with_counts.sql",
        old="and (s.settled_at is null or s.settled_at > b.as_of - interval '5 seconds')",
        new="and s.settled_at is null",
        tests=(
            "integration/test_funds.py::test_an_order_is_reserved_until_a_report_from_after_the_brokers_answer_includes_it",
        ),
    ),
    SourceFault(
        name="a heartbeat that comes too late renews the promise",
        file="adapters/postgres/controls/heartbeats.sql",
        old="    and expires_at > t.now and timeout_seconds",
        new="    and timeout_seconds",
        tests=(
            "integration/test_heartbeats.py::test_a_late_heartbeat_halts_at_once_and_is_refused_until_the_halt_is_lifted",
        ),
    ),
    SourceFault(
        name="a key lengthens the timeout of heartbeats that an admin requires",
        file="adapters/postgres/controls/heartbeats.py",
        old="loosening.require_permission(principal, HeartbeatChanged(was.terms, terms))",
        new="pass",
        tests=(
            "integration/test_heartbeats.py::test_a_key_renews_what_an_admin_requires_and_neither_loosens_nor_disarms_it",
        ),
    ),
    SourceFault(
        name="a missed heartbeat leaves temporary terms of the switch in force",
        file="domain/controls/heartbeats.py",
        old="    if now_and_later and all(_is_halted(terms)",
        new="    if now_and_later and any(_is_halted(terms)",
        tests=(
            "unit/domain/test_heartbeats.py::test_whatever_was_set_it_is_halted_for_good_and_cancels_what_was_cancelled",
        ),
    ),
    SourceFault(
        name="losses are not measured for a limit of a key",
        file="adapters/postgres/money/losses.sql",
        old="and a.account_id = any(k.account_ids) and k.revoked_at is null",
        new="and a.account_id = any(k.account_ids) and k.revoked_at is not null",
        tests=(
            "integration/test_losses.py::test_a_limit_of_a_key_stops_that_key_in_the_accounts_that_it_is_limited_to",
        ),
    ),
    SourceFault(
        name="a worst case counts rules that end before the key",
        file="domain/agents/lasting_rules.py",
        old="            and self._lasts(group)\n",
        new="",
        tests=("unit/domain/test_worst_case.py::test_a_rule_that_ends_before_the_key_is_no_limit",),
    ),
    SourceFault(
        name="a shadow rule rejects",
        file="domain/controls/kind.py",
        old="verdict=Verdict.PASSED if passes else refusal,",
        new="verdict=Verdict.PASSED if passes else Verdict.REFUSED,",
        tests=("unit/domain/test_evaluate_controls.py::test_a_shadow_rule_never_hides_a_hard_one",),
    ),
    SourceFault(
        name="a missing input passes on a live account",
        file="domain/controls/kind.py",
        old=".environment is Environment.PAPER",
        new=".environment in Environment",
        tests=(
            "unit/domain/test_control_kinds.py::test_a_missing_input_refuses_on_live_and_passes_on_paper_unless_the_rule_says_otherwise",
        ),
    ),
    SourceFault(
        name="a rule rejects a CANCEL",
        file="domain/controls/evaluate.py",
        old=".action_type is ActionType.CANCEL:",
        new=".action_type is None:",
        tests=("unit/domain/test_evaluate_controls.py::test_what_lowers_risk_meets_no_rule",),
    ),
    SourceFault(
        name="a REPLACE with a more aggressive price meets no rule",
        file="domain/controls/evaluate.py",
        old="return after.limit_price > before.limit_price",
        new="return after.limit_price < before.limit_price",
        tests=("unit/domain/test_evaluate_controls.py::test_a_replace_that_may_raise_risk_meets_every_rule",),
    ),
    SourceFault(
        name="a rule applies after its expiry",
        file="domain/controls/rules.py",
        old="self.applies_until is None or now < self.applies_until",
        new="self.applies_until is None or now",
        tests=("unit/domain/test_evaluate_controls.py::test_rules_of_another_symbol_or_key_or_time_say_nothing",),
    ),
    SourceFault(
        name="the price collar protects the wrong side",
        file="domain/controls/kinds/prices.py",
        old="(above, collar.up_percent) if buys else (below, collar.down_percent)",
        new="(below, collar.down_percent) if buys else (above, collar.up_percent)",
        tests=("unit/domain/test_control_kinds.py::test_a_rule_decides_its_case",),
    ),
    SourceFault(
        name="a halt set after a command was queued does not stop it",
        file="application/controls/recheck_before_send.py",
        old="evaluate(book, asked, facts, Gate.DOOR)",
        new="[]",
        tests=(
            "integration/test_control_gates.py::test_what_was_queued_before_a_change_is_skipped_at_the_door_and_its_order_closed",
        ),
    ),
)
