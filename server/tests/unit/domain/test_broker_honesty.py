"""What would settle a doubt is said for every command at every kind of broker, and says nothing that is not so."""

from dataclasses import replace
from itertools import product

import pytest

from openbell_server.application.ports.broker import ReplaceSupport
from openbell_server.brokers.paper.profiles import PAPER
from openbell_server.domain.orders.broker_guarantees import SETTLES_BY, IdClass, LookUp
from openbell_server.domain.orders.intents import ActionType

EVERYTHING = list(product(ActionType, LookUp, IdClass))


def test_every_command_at_every_kind_of_broker_has_its_sentence() -> None:
    assert set(SETTLES_BY) == set(EVERYTHING)
    assert all(sentence.endswith(".") for sentence in SETTLES_BY.values())


@pytest.mark.parametrize(("command", "look_up", "id_class"), EVERYTHING)
def test_only_enforced_ids_are_said_to_be_written_again(
    command: ActionType, look_up: LookUp, id_class: IdClass
) -> None:
    sentence = SETTLES_BY[command, look_up, id_class]
    provable = command is ActionType.REPLACE or (command is ActionType.CREATE and look_up is LookUp.EVERY_ORDER)
    assert ("sent again with the same id" in sentence) == (provable and id_class is IdClass.ENFORCED)


@pytest.mark.parametrize(("look_up", "id_class"), list(product(LookUp, IdClass)))
def test_an_order_ends_without_an_operator_only_where_absence_can_be_proved(look_up: LookUp, id_class: IdClass) -> None:
    sentence = SETTLES_BY[ActionType.CREATE, look_up, id_class]
    assert ("FAILED" in sentence) == (look_up is LookUp.EVERY_ORDER)
    assert ("operator" in sentence) == (look_up is not LookUp.EVERY_ORDER)


@pytest.mark.parametrize(
    ("command", "id_class", "support", "may"),
    [
        (command, id_class, support, id_class is IdClass.ENFORCED and harmless)
        for command, support, harmless in (
            (ActionType.CREATE, ReplaceSupport.NONE, True),
            (ActionType.REPLACE, ReplaceSupport.NATIVE_TOTAL, True),
            (ActionType.REPLACE, ReplaceSupport.NATIVE_REMAINING, False),
            (ActionType.CANCEL, ReplaceSupport.NATIVE_TOTAL, False),
        )
        for id_class in IdClass
    ],
)
def test_what_may_be_repeated_follows_from_the_class_of_the_command(
    command: ActionType, id_class: IdClass, support: ReplaceSupport, may: bool
) -> None:
    changed = replace(PAPER.capabilities, replace=support, id_classes={command: id_class})
    assert changed.may_repeat(command) is may


def test_a_command_that_a_broker_says_nothing_of_has_no_id_there() -> None:
    silent = replace(PAPER.capabilities, id_classes={})
    assert not any(silent.may_repeat(command) for command in ActionType)
    assert silent.settles_by(ActionType.CREATE) == SETTLES_BY[ActionType.CREATE, LookUp.EVERY_ORDER, IdClass.NONE]
