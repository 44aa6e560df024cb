"""Faults in webhooks: signatures, targets, order, rotation of secrets."""

from typing import Final

from proof.sabotages.fault import SourceFault

FAULTS: Final = (
    SourceFault(
        name="the signature does not cover the timestamp",
        file="domain/events/webhook_signatures.py",
        old='f"{message_id}.{timestamp}."',
        new='f"{message_id}.."',
        tests=(
            "unit/domain/test_webhook_signatures.py::test_the_package_of_the_standard_verifies_both_the_new_and_the_replaced_secret",
        ),
    ),
    SourceFault(
        name="an event is sent to a private address",
        file="domain/events/webhook_targets.py",
        old='"172.16.0.0/12", ',
        new="",
        tests=("unit/domain/test_webhook_targets.py::test_private_addresses_are_an_operators_to_allow",),
    ),
    SourceFault(
        name="the addresses that DNS returns are not checked",
        file="adapters/webhooks/posting.py",
        old="for address in addresses:\n            check_address",
        new="for address in addresses[:1]:\n            check_address",
        tests=(
            "unit/adapters/webhooks/test_posting.py::test_a_name_that_leads_inside_by_any_of_its_addresses_is_connected_to_by_none",
        ),
    ),
    SourceFault(
        name="later events are sent although an earlier one failed",
        file="application/webhooks/deliver_webhooks.py",
        old='            self.outcomes["parked"] += 1\n        return False',
        new='            self.outcomes["parked"] += 1\n        return True',
        tests=(
            "integration/test_delivering_webhooks.py::test_what_fails_is_tried_again_later_and_nothing_behind_it_is_sent_before",
        ),
    ),
    SourceFault(
        name="a replaced secret stops signing at once",
        file="domain/events/webhooks.py",
        old="return self.secret_version, self.secret_version - 1",
        new="return (self.secret_version,)",
        tests=(
            "unit/domain/test_webhooks.py::test_after_a_rotation_the_secret_before_signs_along_until_its_time_is_over",
        ),
    ),
    SourceFault(
        name="a sender that lost its lease records its progress",
        file="adapters/postgres/events/delivery_queue.sql",
        old="        and claim_token = :lane_token\n    returning account_id",
        new="        and (claim_token = :lane_token or true)\n    returning account_id",
        tests=(
            "integration/test_delivering_webhooks.py::test_a_holder_who_fell_silent_loses_its_lane_and_then_changes_nothing",
        ),
    ),
)
