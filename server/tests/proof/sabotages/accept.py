"""Faults in accepting commands: hashes, idempotency keys, epochs, numbers."""

from typing import Final

from proof.sabotages.fault import FunctionFault, SchemaFault, SourceFault

FAULTS: Final = (
    SourceFault(
        name="the command hash leaves out the time in force",
        file="domain/orders/intents.py",
        old="                spec.time_in_force,\n",
        new="",
        tests=("unit/domain/test_intents.py::test_every_changed_field_changes_the_hash",),
    ),
    SourceFault(
        name="a used idempotency key accepts another command",
        file="application/intents/submit_intent.py",
        old=" if acceptance.command_hash != submission.command_hash:",
        new=" if acceptance.command_hash is None:",
        tests=("integration/rest/test_intents.py::test_a_key_used_for_another_command_is_refused",),
    ),
    SourceFault(
        name="a lost commit answer counts as not recorded",
        file="application/intents/submit_intent.py",
        old="recorded = await self.intents.find_action_by_id(*where, submission.intent_id, submission.action_id)",
        new="recorded = None",
        tests=("integration/test_doubtful_commits.py::test_a_commit_without_a_key_whose_answer_was_lost_is_found_out",),
    ),
    SourceFault(
        name="commands under one idempotency key share a batch",
        file="application/intents/group_commit.py",
        old="else ((account_id, submission.intent_id), (account_id, key))",
        new="else ((account_id, submission.intent_id),)",
        tests=(
            "unit/application/test_accept_together.py::test_two_commands_for_one_intent_or_under_one_key_go_in_turn",
        ),
    ),
    FunctionFault(
        name="a batch accepts a command that was checked with outdated rules of the account",
        function="accept_commands",
        old="or c.control_epoch is distinct from i.account_epoch",
        new="",
        tests=("integration/test_accept_replaces.py::test_controls_that_changed_stop_a_replace_and_no_cancel",),
    ),
    FunctionFault(
        name="a single CREATE is accepted that was checked with outdated rules of the account",
        function="accept_create",
        old="or v_account.control_epoch is distinct from p_account_epoch",
        new="",
        tests=("integration/test_accept_one.py::test_a_create_alone_gets_what_it_gets_in_company",),
    ),
    FunctionFault(
        name="an idempotency key is looked up without its account",
        function="accept_create",
        old="where k.account_id = p_account_id and k.key",
        new="where k.key",
        tests=("integration/rest/test_intents.py::test_a_key_belongs_to_its_account",),
    ),
    FunctionFault(
        name="actions are numbered without the account's lock",
        function="accept_create",
        old="c.organization_id = p_organization_id for no key update",
        new="c.organization_id = p_organization_id",
        tests=("integration/test_accept_one.py::test_a_create_that_waits_for_the_account_s_lock_has_the_next_number",),
    ),
    FunctionFault(
        name="the stored hash leaves out the client reference",
        function="accept_commands",
        old="canonical_field(t.client_reference_id)",
        new="canonical_field(null)",
        tests=("integration/test_accept_commands.py::test_the_stored_hash_is_the_domain_s_hash",),
    ),
    FunctionFault(
        name="the hash chain leaves out the receipts",
        function="accept_commands",
        old="t.hash || t.receipt_hash",
        new="t.hash",
        tests=("integration/test_accept_commands.py::test_the_chain_takes_one_step_per_set_over_actions_and_receipts",),
    ),
    SchemaFault(
        name="a recorded receipt can be changed",
        sql="drop trigger append_only on openbell.receipts",
        tests=("integration/test_accept_commands.py::test_history_is_append_only",),
    ),
)
