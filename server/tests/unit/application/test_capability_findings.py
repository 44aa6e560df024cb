"""What a broker cannot do: one list of checks, as a refusal and as lines of a receipt."""

from dataclasses import replace
from decimal import Decimal
from types import SimpleNamespace
from typing import cast

import pytest

from openbell_server.application.intents.capability_checks import capability_findings, require_capability
from openbell_server.application.ports.broker import BrokerCapabilities, BrokerDefinition, ReplaceSupport
from openbell_server.domain.controls.findings import Comparison, Scope, Verdict
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.orders.intents import Command
from openbell_server.domain.orders.order_terms import OrderType, RouteStrategy, TimeInForce
from support.builders.tenant import a_cancel, a_limit_create, a_replace, new_id

CAPABILITIES = BrokerCapabilities(
    order_types=frozenset({OrderType.MARKET}),
    times_in_force=frozenset({TimeInForce.GOOD_TILL_CANCEL}),
    route_strategies=frozenset({RouteStrategy.IEX}),
    default_time_in_force=TimeInForce.DAY,
    quantity_decimals=0,
    settle_seconds=1.0,
)


def broker(capabilities: BrokerCapabilities = CAPABILITIES) -> BrokerDefinition:
    return cast("BrokerDefinition", SimpleNamespace(name="small", capabilities=capabilities))


def half_a_share() -> Command:
    create = a_limit_create(quantity="0.5")
    return replace(create, spec=replace(create.spec, time_in_force=TimeInForce.DAY))


def test_everything_that_a_broker_lacks_has_its_line() -> None:
    lines = capability_findings(broker(), half_a_share())
    assert [(line.limit, line.observed) for line in lines] == [
        (["MARKET"], "LIMIT"),
        (["GOOD_TILL_CANCEL"], "DAY"),
        (["IEX"], "SMART"),
        ("1", "0.5"),
    ]
    assert [line.comparison for line in lines] == [Comparison.ONE_OF] * 3 + [Comparison.MULTIPLE_OF]
    assert all(line.verdict is Verdict.REFUSED and line.scope is Scope.PLATFORM and line.would_pass for line in lines)


def test_the_first_that_it_lacks_answers() -> None:
    with pytest.raises(Problem) as refusal:
        require_capability(broker(), half_a_share())
    assert (refusal.value.code, refusal.value.detail) == (
        "not_supported",
        "small does not support the order kind LIMIT",
    )


def test_a_quantity_with_too_many_digits_is_refused_where_it_stands() -> None:
    allowed = replace(
        CAPABILITIES,
        order_types=frozenset(OrderType),
        times_in_force=frozenset(TimeInForce),
        route_strategies=frozenset(RouteStrategy),
        quantity_decimals=2,
    )
    require_capability(broker(allowed), a_limit_create(quantity="0.25"))
    with pytest.raises(Problem) as refusal:
        require_capability(broker(allowed), a_limit_create(quantity="0.255"))
    [field] = refusal.value.errors
    assert field.pointer == "/command/payload/spec/Limit/quantity"
    assert capability_findings(broker(allowed), a_limit_create(quantity="0.255"))[-1].limit == "0.01"


def test_a_broker_that_cannot_replace_says_which_commands_it_takes() -> None:
    command = a_replace(IntentId(new_id()))
    assert capability_findings(broker(), command)[0].limit == ["CREATE", "CANCEL"]
    with pytest.raises(Problem) as refusal:
        require_capability(broker(), command)
    assert refusal.value.code == "replace_not_supported"
    native = broker(replace(CAPABILITIES, replace=ReplaceSupport.NATIVE_TOTAL))
    assert capability_findings(native, command)[0].verdict is Verdict.PASSED


def test_a_cancel_asks_for_nothing_that_a_broker_could_lack() -> None:
    assert capability_findings(broker(), a_cancel(IntentId(new_id()))) == []
    require_capability(broker(), a_cancel(IntentId(new_id())))


def test_what_would_pass_is_named() -> None:
    lines = capability_findings(broker(), half_a_share())
    assert lines[0].would_pass == "one of MARKET as order kind"
    assert lines[-1].would_pass == "a quantity that is a multiple of 1"
    assert Decimal(str(lines[-1].limit)) == 1
