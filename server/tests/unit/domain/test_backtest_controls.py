"""Recorded commands, judged by rules that were not set then: what counts, for whom, and what nobody can say."""

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

from openbell_server.domain.controls.backtest import RecordedCommand, Replay
from openbell_server.domain.controls.backtest_markets import ReceiptLine, recalled
from openbell_server.domain.controls.backtest_state import OrderSnapshot, RecordedState, ReplaceSettled
from openbell_server.domain.controls.evaluate import evaluate
from openbell_server.domain.controls.facts import CommandFacts, Facts, Gate, Rate, ReferencePrice
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.receipts import finding_facts
from openbell_server.domain.controls.rules import Rule, RuleBook
from openbell_server.domain.identifiers import IntentId
from openbell_server.domain.markets.instruments import Instrument
from openbell_server.domain.orders.intents import ActionType
from openbell_server.domain.orders.order_terms import OrderSide, OrderType
from support.builders.recorded_commands import A_CREATE, AAPL, NOON, a_command, a_replay, a_rule
from support.builders.tenant import new_id, some_terms


def asking(quantity: int) -> CommandFacts:
    return replace(A_CREATE, terms=some_terms(quantity, "1.50"))


def told(command: RecordedCommand, filled: int = 0, *, is_open: bool = True, quantity: int = 10) -> OrderSnapshot:
    assert command.intent_id is not None
    return OrderSnapshot(
        key=command.intent_id,
        symbol=AAPL,
        order_side=command.asked.order_side,
        terms=some_terms(quantity, "1.50"),
        filled_quantity=Decimal(filled),
        is_open=is_open,
    )


def test_a_tighter_rule_newly_refuses_what_was_accepted() -> None:
    replay = a_replay(a_rule("QTY_MAX", quantity="10"), examples_max=5)
    replay.take([a_command(asking(10)), a_command(asking(11))])
    tally = replay.tally
    assert (tally.intents, tally.judged, tally.refused, tally.newly_refused, tally.newly_accepted) == (2, 2, 1, 1, 0)
    assert [example.command.asked.terms.quantity for example in tally.examples] == [11]
    assert [finding.code for finding in tally.examples[0].findings] == ["QTY_MAX"]


def test_a_looser_rule_newly_accepts_what_was_refused() -> None:
    replay = a_replay(a_rule("QTY_MAX", quantity="10"))
    replay.take([a_command(asking(10), seq=None), a_command(asking(11), seq=None)])
    assert (replay.tally.newly_accepted, replay.tally.newly_refused, replay.tally.refused) == (1, 0, 1)


def test_a_rule_in_shadow_mode_refuses_nothing_and_is_counted_apart() -> None:
    replay = a_replay(a_rule("QTY_MAX", mode=Mode.SHADOW, quantity="1"))
    replay.take([a_command()])
    [line] = replay.tally.by_rule.values()
    assert (line.would_refuse, line.refused, replay.tally.refused) == (1, 0, 0)


def test_a_cancel_and_a_replace_for_less_are_not_judged() -> None:
    created = a_command(asking(10))
    less = a_command(replace(asking(9), action_type=ActionType.REPLACE), intent_id=created.intent_id, seq=2)
    cancel = a_command(replace(A_CREATE, action_type=ActionType.CANCEL), intent_id=created.intent_id, seq=3)
    replay = a_replay(a_rule("QTY_MAX", quantity="1"))
    replay.take([created, less, cancel])
    assert replay.tally.intents == 1


def test_a_replace_is_judged_by_the_terms_that_its_order_had_then() -> None:
    created = a_command(asking(10))
    twelve = replace(asking(12), action_type=ActionType.REPLACE)
    replay = a_replay(a_rule("QTY_MAX", quantity="11"))
    replay.take(
        [
            created,
            # More than its ten, and refused.
            a_command(twelve, intent_id=created.intent_id, seq=2),
            told(created, quantity=15),
            # Less than its fifteen.
            a_command(twelve, intent_id=created.intent_id, seq=3),
        ]
    )
    assert (replay.tally.intents, replay.tally.refused) == (2, 1)


def test_a_refused_replace_whose_order_nobody_knows_is_undecided() -> None:
    replay = a_replay(a_rule("QTY_MAX", quantity="1"))
    replay.take([a_command(replace(A_CREATE, action_type=ActionType.REPLACE), seq=None)])
    assert (replay.tally.intents, replay.tally.judged, replay.tally.undecided) == (1, 0, 1)


def test_commands_before_the_window_count_and_are_not_judged() -> None:
    replay = a_replay(a_rule("QTY_MAX", quantity="1"))
    replay.take([a_command(seconds=-1), a_command()])
    assert replay.tally.intents == 1


def test_no_more_examples_are_kept_than_asked_for() -> None:
    replay = a_replay(a_rule("QTY_MAX", quantity="1"), examples_max=2)
    replay.take([a_command() for _ in range(5)])
    assert (len(replay.tally.examples), replay.tally.refused) == (2, 5)


def exposed(state: RecordedState, asked: CommandFacts = A_CREATE, intent_id: IntentId | None = None) -> tuple[int, ...]:
    """The position, what works on either side, and the counts of open orders."""
    exposure = state.exposure(asked, intent_id, NOON)
    assert exposure.position is not None
    return (
        int(exposure.position),
        int(exposure.working_buys),
        int(exposure.working_sells),
        exposure.open_orders,
        exposure.open_orders_of_symbol,
        exposure.open_orders_of_side,
    )


def recorded(state: RecordedState, asked: CommandFacts = A_CREATE) -> RecordedCommand:
    command = a_command(asked)
    assert command.intent_id is not None
    state.accepted(asked, command.intent_id, 1, NOON)
    return command


def test_an_order_works_from_its_acceptance_until_it_ends() -> None:
    state = RecordedState([], {AAPL: Decimal(5)})
    buy, sell = recorded(state), recorded(state, replace(A_CREATE, order_side=OrderSide.SELL))
    assert exposed(state) == (5, 10, 10, 2, 2, 1)
    state.update(told(buy, 4))
    assert exposed(state) == (9, 6, 10, 2, 2, 1)
    state.update(told(sell, 3, is_open=False))
    assert exposed(state) == (6, 6, 0, 1, 1, 1)
    state.update(told(buy, 10, is_open=False))
    assert exposed(state) == (12, 0, 0, 0, 0, 0)


def test_a_fill_after_the_end_moves_the_position_only() -> None:
    state = RecordedState([], {})
    buy = recorded(state)
    state.update(told(buy, is_open=False))
    state.update(told(buy, 2, is_open=False))
    assert exposed(state) == (2, 0, 0, 0, 0, 0)


def test_an_order_that_opens_again_works_again() -> None:
    state = RecordedState([], {})
    buy = recorded(state)
    state.update(told(buy, 10, is_open=False))
    state.update(told(buy, 4))
    assert exposed(state) == (4, 6, 0, 1, 1, 1)


def test_a_replace_that_waits_counts_by_the_most_it_may_become() -> None:
    state = RecordedState([], {})
    buy = recorded(state)
    assert buy.intent_id is not None
    state.accepted(replace(asking(25), action_type=ActionType.REPLACE), buy.intent_id, 2, NOON)
    assert exposed(state)[1] == 25
    state.settled(ReplaceSettled(buy.intent_id, 2))
    assert exposed(state)[1] == 10


def test_a_command_is_judged_without_the_order_it_is_about() -> None:
    state = RecordedState([], {})
    buy = recorded(state)
    recorded(state)
    assert exposed(state, intent_id=buy.intent_id) == (0, 10, 0, 1, 1, 1)


def test_the_state_begins_with_what_was_open() -> None:
    state = RecordedState([told(a_command(), 3)], {AAPL: Decimal(3)})
    assert exposed(state) == (3, 7, 0, 1, 1, 1)


def test_orders_that_are_not_ours_work_and_move_the_position() -> None:
    state = RecordedState([], {})
    replay = Replay(RuleBook(organization_epoch=1, account_epoch=1, rules=()), state, since=NOON)
    selling = a_command(replace(A_CREATE, order_side=OrderSide.SELL))
    replay.take([replace(told(selling, 7), key="b1")])
    assert exposed(state) == (-7, 0, 3, 1, 1, 0)


def test_a_position_that_nobody_knows_stays_unknown() -> None:
    state = RecordedState([], None)
    state.update(told(recorded(state), 4))
    assert state.exposure(A_CREATE, None, NOON).position is None


def test_equal_orders_are_told_newest_first_whatever_the_zeros_at_their_end() -> None:
    state = RecordedState([], {})
    first = a_command()
    assert first.intent_id is not None
    state.accepted(A_CREATE, first.intent_id, 1, NOON)
    state.accepted(A_CREATE, IntentId(new_id()), 1, NOON + timedelta(seconds=1))
    again = replace(A_CREATE, terms=some_terms(Decimal("10.00"), "1.5"))
    assert state.equal_orders(again) == [NOON + timedelta(seconds=1), NOON]
    assert state.equal_orders(asking(11)) == []


def test_rates_count_what_was_refused_and_what_came_before_the_window() -> None:
    replay = a_replay(a_rule("RATE_ORDERS", count=2, window_millis=1_000))
    replay.take(
        [
            a_command(seconds=-0.5),
            a_command(seconds=0, seq=None),
            # Two in the second before it.
            a_command(seconds=0.25),
            # The first of them is a second old, and counts no more.
            a_command(seconds=0.5, seq=None),
            a_command(seconds=1.5),
        ]
    )
    assert (replay.tally.judged, replay.tally.refused, replay.tally.newly_refused) == (4, 2, 1)


def test_a_rate_that_others_share_is_only_sure_where_it_refuses() -> None:
    replay = a_replay(a_rule("RATE_ORDERS", scope=Scope.ORGANIZATION, count=1, window_millis=1_000))
    replay.take([a_command(), a_command()])
    assert (replay.tally.judged, replay.tally.refused, replay.tally.undecided) == (1, 1, 1)


def test_a_position_rule_is_undecided_where_nobody_knows_the_position() -> None:
    book = RuleBook(organization_epoch=1, account_epoch=1, rules=(a_rule("POSITION_MAX", quantity="5"),))
    for positions, told_of in ((None, (0, 1)), ({}, (1, 0))):
        replay = Replay(book, RecordedState([], positions), since=NOON)
        replay.take([a_command()])
        assert (replay.tally.refused, replay.tally.undecided) == told_of


def test_an_equal_order_within_the_window_is_refused_and_a_later_one_is_not() -> None:
    replay = a_replay(a_rule("DUPLICATE", window_millis=1_000))
    replay.take([a_command(), a_command(seconds=0.9), a_command(seconds=2)])
    assert (replay.tally.judged, replay.tally.refused) == (3, 1)


def of_market(order_type: OrderType = OrderType.MARKET) -> CommandFacts:
    return replace(A_CREATE, order_type=order_type, terms=replace(A_CREATE.terms, limit_price=None))


def lines_of(rule: Rule, asked: CommandFacts, facts: Facts) -> list[ReceiptLine]:
    """What the receipt of a command says, judged by one rule."""
    book = RuleBook(organization_epoch=1, account_epoch=1, rules=(rule,))
    told = [finding_facts(finding) for finding in evaluate(book, asked, facts, Gate.ACCEPT)]
    return [ReceiptLine(line["code"], line["limit"], line.get("inputs", {})) for line in told]


A_PRICE = ReferencePrice(price=Decimal(100), as_of=NOON, source="quote", bid=Decimal(98), ask=Decimal(102))


def judged_again(then: Rule, now: Rule, asked: CommandFacts, facts: Facts) -> tuple[int, int, int]:
    """How many a rule refuses, passes and leaves undecided of one command, by what another rule left on record."""
    replay = a_replay(now)
    command = replace(a_command(asked), recalled=recalled(AAPL, lines_of(then, asked, facts)))
    replay.take([command])
    tally = replay.tally
    return tally.refused, tally.judged - tally.refused, tally.undecided


def a_collar(up: str, spread_percent: str | None = None) -> Rule:
    if spread_percent is None:
        return a_rule("PRICE_COLLAR", up_percent=up, down_percent="5")
    return a_rule("PRICE_COLLAR", up_percent=up, down_percent="5", spread_percent=spread_percent)


def test_a_collar_is_judged_by_the_price_that_another_collar_left_on_record() -> None:
    asked = replace(A_CREATE, terms=some_terms(10, "104"))
    facts = Facts(now=NOON, price=A_PRICE)
    assert judged_again(a_collar("5"), a_collar("3"), asked, facts) == (1, 0, 0)
    assert judged_again(a_collar("3"), a_collar("4"), asked, facts) == (0, 1, 0)
    assert judged_again(a_rule("QTY_MAX", quantity="1"), a_collar("3"), asked, facts) == (0, 0, 1)


def test_a_collar_of_the_spread_is_undecided_where_bid_and_ask_are_not_on_record() -> None:
    facts = Facts(now=NOON, price=A_PRICE)
    tight = a_collar("5", spread_percent="1")
    assert judged_again(a_collar("5"), tight, of_market(), facts) == (0, 0, 1)
    assert judged_again(a_collar("5", spread_percent="9"), tight, of_market(), facts) == (1, 0, 0)
    assert judged_again(a_collar("5", spread_percent="9"), a_collar("5", spread_percent="4"), of_market(), facts) == (
        0,
        1,
        0,
    )
    # An order with a limit is not judged by the spread.
    limited = replace(A_CREATE, terms=some_terms(10, "104"))
    assert judged_again(a_collar("5"), tight, limited, facts) == (0, 1, 0)


def test_bid_and_ask_are_recalled_from_whichever_rule_told_them() -> None:
    facts = Facts(now=NOON, price=A_PRICE)
    value = a_rule("NOTIONAL_MAX", value="500", currency="USD")
    lines = [*lines_of(value, of_market(), facts), *lines_of(a_collar("5", spread_percent="9"), of_market(), facts)]
    assert recalled(AAPL, lines).price == A_PRICE


def test_a_value_is_judged_by_the_instrument_and_rate_that_another_limit_left_on_record() -> None:
    euro = Instrument(
        symbol=AAPL, asset_class="", quote_currency="EUR", tradable=True, fractional=True, multiplier=Decimal(2)
    )
    rate = Rate(rate=Decimal("1.5"), as_of=NOON)
    facts = Facts(now=NOON, price=A_PRICE, instrument=euro, rates_of_exchange={("EUR", "USD"): rate})
    asked = replace(A_CREATE, terms=some_terms(10, "100"))

    def limit(value: str, currency: str = "USD") -> Rule:
        return a_rule("NOTIONAL_MAX", value=value, currency=currency)

    # Ten at 100, doubled, in dollars.
    assert judged_again(limit("9999"), limit("2999"), asked, facts) == (1, 0, 0)
    assert judged_again(limit("9999"), limit("3000"), asked, facts) == (0, 1, 0)
    assert judged_again(limit("9999"), limit("2000", "EUR"), asked, facts) == (0, 1, 0)
    # Nobody asked for francs then, and a rule that is not of values tells no instrument.
    assert judged_again(limit("9999"), limit("1", "CHF"), asked, facts) == (0, 0, 1)
    assert judged_again(a_collar("5"), limit("1"), asked, facts) == (0, 0, 1)


def test_an_order_is_valued_again_by_the_market_that_its_receipt_has() -> None:
    dollars = Instrument(symbol=AAPL, asset_class="", quote_currency="USD", tradable=True, fractional=True)
    facts = Facts(now=NOON, price=A_PRICE, instrument=dollars)

    def limit(value: str) -> Rule:
        return a_rule("NOTIONAL_MAX", value=value, currency="USD")

    sold = replace(A_CREATE, order_side=OrderSide.SELL, terms=some_terms(10, "0.01"))
    # Ten at 100 with five percent more, although the limit is a cent.
    assert judged_again(limit("9999"), limit("1049.99"), sold, facts) == (1, 0, 0)
    assert judged_again(limit("9999"), limit("1050"), sold, facts) == (0, 1, 0)
    # The receipt of a BUY with a limit has no reference price; the instrument alone does not value a SELL.
    bought = lines_of(limit("9999"), replace(A_CREATE, terms=some_terms(10, "0.01")), facts)
    replay = a_replay(limit("1049.99"))
    replay.take([replace(a_command(sold), recalled=recalled(AAPL, bought))])
    assert (replay.tally.refused, replay.tally.undecided) == (0, 1)
