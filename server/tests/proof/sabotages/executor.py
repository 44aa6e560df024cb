"""Faults in the executor on the real database: doors, leases, sign-ins, reports."""

from typing import Final

from proof.sabotages.fault import SourceFault

FAULTS: Final = (
    SourceFault(
        name="a door opens for an action that was sent before",
        file="adapters/postgres/execution/execution.sql",
        old="    and state = 'QUEUED'\nreturning action_id, send_started_at;",
        new="returning action_id, send_started_at;",
        tests=("integration/test_execution_store_contract.py::test_a_door_opens_once",),
    ),
    SourceFault(
        name="the executor sends with an outdated credential",
        file="application/execution/broker_sign_ins.py",
        old="if self._version(account.account_id) == standing.credential_version:",
        new="if self._version(account.account_id) is not None or standing.credential_version is None:",
        tests=("integration/test_keep_sessions.py::test_no_door_opens_while_signed_in_with_another_version",),
    ),
    SourceFault(
        name="an execution reported twice counts twice",
        file="adapters/postgres/execution/execution.sql",
        old="on conflict (account_id, execution_id) do nothing\n",
        new="on conflict (account_id, execution_id) do update set recorded_at = excluded.recorded_at\n",
        tests=("integration/test_order_reports.py::test_reports_twice_and_out_of_order_count_each_fill_once",),
    ),
    SourceFault(
        name="an executor works on after its lease may have expired",
        file="application/execution/slot_leases.py",
        old="return self._slots if self.monotonic() < self._valid_until else frozenset()",
        new="return self._slots",
        tests=("integration/test_slot_leases.py::test_an_executor_that_was_paused_holds_nothing_until_it_has_asked",),
    ),
    SourceFault(
        name="a slot is taken before its lease has expired",
        file="adapters/postgres/execution/slot_leases.sql",
        old="where holder is null or held_until < clock_timestamp()",
        new="where holder is null or held_until < clock_timestamp() + interval '1 hour'",
        tests=("integration/test_slot_leases.py::test_a_newcomer_gets_its_share_and_no_slot_has_two_holders",),
    ),
    SourceFault(
        name="an outcome is recorded for another attempt",
        file="application/execution/record_outcomes.py",
        old="== answer.door.action.action_id and action.attempt_id == answer.door.attempt_id:",
        new="== answer.door.action.action_id:",
        tests=(
            "integration/test_writing_again.py::test_an_answer_to_the_first_write_settles_nothing_once_there_is_a_second",
        ),
    ),
    SourceFault(
        name="a settled action is settled again",
        file="adapters/postgres/execution/execution.sql",
        old="and action_id = :action_id and state = :previous;",
        new="and action_id = :action_id and :previous::text is not null;",
        tests=("integration/test_execution_store_contract.py::test_what_was_settled_meanwhile_is_not_settled_again",),
    ),
)
