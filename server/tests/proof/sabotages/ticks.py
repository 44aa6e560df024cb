"""Faults in writing outcomes, reports and doors of many accounts in one statement."""

from typing import Final

from proof.sabotages.fault import FunctionFault, SourceFault

_UNITS: Final = "integration/test_tick_store_contract.py::"
_DOORS: Final = "integration/test_tick_doors_contract.py::"
_ATTACKS: Final = "integration/test_tick_attacks.py::"
_TICKS: Final = "unit/application/test_execution_ticks.py::"
_SAME: Final = "unit/application/test_ticks_and_the_long_way.py::"
_DIFFERS: Final = f"{_UNITS}test_a_unit_that_differs_changes_nothing_alone"
_JUDGED: Final = f"{_DOORS}test_no_door_opens_that_was_judged_by_something_else"
_CHANGED: Final = f"{_DOORS}test_no_door_opens_after_a_change"

# Two joins compare it, each of which alone keeps organizations apart.
_ORGANIZATION_OF_UNIT: Final = """\
                    and s.organization_id = u.organization_id and s.slot = any (p_slots)
                    and o.version = u.version and u.place = 1 and (v_seen is null or not u.ord = any (v_seen))
                    then 'WRITTEN' else 'CHANGED' end as status,
                -- What was sent has an attempt, so its state is neither QUEUED nor SKIPPED.
                coalesce(
                    u.state not in ('QUEUED', 'SKIPPED')
                    and is_action_state(u.state, u.attempt_id, v_now, v_now, case when u.settles then v_now end)
                    and is_order_state(u.filled_quantity, u.standing, u.close_reason, u.pending, u.certainty),
                    false
                ) as is_valid
            from (
                select u.*, row_number() over (partition by u.account_id, u.intent_id order by u.ord) as place
                from unnest(
                    u_organization_id, u_account_id, u_intent_id, u_action_id, u_attempt_id, u_version, u_previous,
                    u_state, u_settles, u_saves_order, u_filled_quantity, u_standing, u_close_reason, u_pending,
                    u_certainty
                ) with ordinality u (
                    organization_id, account_id, intent_id, action_id, attempt_id, version, previous, state, settles,
                    saves_order, filled_quantity, standing, close_reason, pending, certainty, ord
                )
            ) u
            left join lateral (
                select s.ctid as row, s.organization_id, s.attempt_id, s.state, s.slot from action_states s
                -- By all columns of both keys, whichever the planner uses.
                where s.account_id = u.account_id and s.action_id = u.action_id and s.intent_id = u.intent_id
                    and s.seq = 1
                limit 1
            ) s on true
            left join lateral (
                select o.ctid as row, o.version from orders o
                where o.organization_id = u.organization_id"""
_ORGANIZATION_OF_DOOR: Final = """d.account_id and c.organization_id = d.organization_id
                and c.slot = any (p_slots)
            left join organizations o on o.organization_id = d.organization_id
            left join accounts a on a.organization_id = d.organization_id and a.account_id = d.account_id
"""
_OF_UNITS: Final = (
    FunctionFault(
        name="a tick writes what was decided before the order changed",
        function="work_tick",
        old="and o.version = u.version and u.place = 1",
        new="and o.version is not null and u.place = 1",
        tests=(f"{_UNITS}test_a_later_command_makes_what_was_decided_before_it_outdated",),
    ),
    FunctionFault(
        name="a tick settles an action that is in another state",
        function="work_tick",
        old="case when s.state = u.previous and s.attempt_id = u.attempt_id",
        new="case when s.attempt_id = u.attempt_id",
        tests=(_DIFFERS,),
    ),
    FunctionFault(
        name="a tick records the answer to another attempt",
        function="work_tick",
        old="case when s.state = u.previous and s.attempt_id = u.attempt_id",
        new="case when s.state = u.previous",
        tests=(_DIFFERS,),
    ),
    FunctionFault(
        name="a tick writes two units of one intent",
        function="work_tick",
        old="and o.version = u.version and u.place = 1",
        new="and o.version = u.version",
        tests=(f"{_UNITS}test_of_two_units_of_an_intent_the_first_is_written",),
    ),
    FunctionFault(
        name="a tick writes into an account of another organization",
        function="work_tick",
        old=_ORGANIZATION_OF_UNIT,
        new=_ORGANIZATION_OF_UNIT.replace("s.organization_id = u.organization_id and ", "").replace(
            "o.organization_id = u.organization_id", "o.organization_id = s.organization_id"
        ),
        tests=(
            f"{_ATTACKS}test_a_unit_that_names_our_organization_and_their_account_changes_nothing",
            _DIFFERS,
        ),
    ),
    FunctionFault(
        name="a tick writes into a slot that its caller does not hold",
        function="work_tick",
        old="and s.organization_id = u.organization_id and s.slot = any (p_slots)",
        new="and s.organization_id = u.organization_id",
        tests=(f"{_UNITS}test_a_unit_of_a_slot_that_the_caller_does_not_hold_changes_nothing",),
    ),
    FunctionFault(
        name="a tick does not look for executions that are known",
        function="work_tick",
        old="and (v_seen is null or not u.ord = any (v_seen))",
        new="",
        tests=(f"{_UNITS}test_an_execution_that_is_known_leaves_its_unit_unwritten",),
    ),
    FunctionFault(
        name="a tick numbers events with gaps",
        function="work_tick",
        old="count(*) as events from appended",
        new="count(*) + 1 as events from appended",
        tests=(f"{_UNITS}test_events_have_no_gaps_when_accepts_and_ticks_alternate",),
    ),
    FunctionFault(
        name="a tick starts a position at zero",
        function="work_tick",
        old="set quantity = p.quantity + excluded.quantity",
        new="set quantity = excluded.quantity",
        tests=(f"{_UNITS}test_a_position_changes_by_the_fill_from_where_it_was",),
    ),
    FunctionFault(
        name="trades of one tick all show the last position",
        function="work_tick",
        old="h.quantity - t.change + m.so_far as quantity",
        new="h.quantity as quantity",
        tests=(f"{_UNITS}test_units_of_one_symbol_in_one_tick_show_running_positions",),
    ),
    FunctionFault(
        name="a tick writes an order without a new version",
        function="work_tick",
        old="version = o.version + 1",
        new="version = o.version",
        tests=(f"{_UNITS}test_a_written_unit_starts_the_next_version_of_its_order",),
    ),
    FunctionFault(
        name="a tick takes locks in the order of its rows",
        function="work_tick",
        old="order by c.account_id for no key update of c",
        new="order by array_position(d_account_id, c.account_id) for no key update of c",
        tests=(f"{_ATTACKS}test_ticks_accepts_and_the_long_way_never_deadlock_and_double_nothing",),
    ),
    FunctionFault(
        name="a tick takes no lock of its accounts",
        function="work_tick",
        old="order by c.account_id for no key update of c",
        new="order by c.account_id",
        tests=(f"{_ATTACKS}test_a_tick_that_waits_for_a_halt_opens_no_door",),
    ),
)
_OF_DOORS: Final = (
    FunctionFault(
        name="a tick opens doors without the lock of the rules",
        function="work_tick",
        old="perform pg_advisory_xact_lock_shared(hashtextextended(n.id::text, 7))",
        new="perform n.id",
        tests=(f"{_ATTACKS}test_a_tick_that_waits_for_a_halt_opens_no_door",),
    ),
    FunctionFault(
        name="a tick opens a door that was checked before a halt of the organization",
        function="work_tick",
        old="or o.control_epoch <> d.organization_epoch",
        new="",
        tests=(f"{_ATTACKS}test_no_door_opens_after_a_halt_is_committed", _JUDGED),
    ),
    FunctionFault(
        name="a tick opens a door that was checked before a halt of the account",
        function="work_tick",
        old="c.control_epoch <> d.account_epoch or",
        new="",
        tests=(f"{_ATTACKS}test_no_door_opens_after_a_halt_is_committed", _JUDGED),
    ),
    FunctionFault(
        name="a tick opens doors of an account that an operator must resume",
        function="work_tick",
        old="when c.halt_code is not null then 'HALTED'",
        new="",
        tests=(_CHANGED,),
    ),
    FunctionFault(
        name="a tick opens doors of disabled accounts",
        function="work_tick",
        old="when o.disabled or a.disabled then 'DISABLED'",
        new="",
        tests=(_CHANGED,),
    ),
    FunctionFault(
        name="a tick opens a door with an outdated credential",
        function="work_tick",
        old="when a.credential_version is distinct from d.credential_version\n",
        new="when false\n",
        tests=(_CHANGED, _JUDGED),
    ),
    FunctionFault(
        name="a tick opens doors after a restore",
        function="work_tick",
        old="or i.epoch <> d.database_epoch or c.recovered_epoch <> i.epoch",
        new="",
        tests=(_CHANGED, _JUDGED),
    ),
    FunctionFault(
        name="a tick opens a door for a revoked key",
        function="work_tick",
        old="and o.certainty = 'CONFIRMED' and not w.is_revoked",
        new="and o.certainty = 'CONFIRMED'",
        tests=(_CHANGED,),
    ),
    FunctionFault(
        name="a tick opens a door after the deadline",
        function="work_tick",
        old="and (n.deadline is null or n.deadline > v_now)",
        new="",
        tests=(_CHANGED,),
    ),
    FunctionFault(
        name="a tick sends old commands of live accounts",
        function="work_tick",
        old="and (n.seconds_max is null or n.queued_at > v_now - make_interval(secs => n.seconds_max))",
        new="",
        tests=(f"{_DOORS}test_a_command_of_a_live_account_that_waited_for_a_minute_opens_no_door",),
    ),
    FunctionFault(
        name="a tick opens doors although a cancel waits",
        function="work_tick",
        old="and k.state = 'QUEUED'\n                    limit 1\n                ) then 'CANCELS'",
        new="and k.state = 'NONE'\n                    limit 1\n                ) then 'CANCELS'",
        tests=(f"{_DOORS}test_a_queued_cancel_stops_every_door_of_its_account",),
    ),
    FunctionFault(
        name="a tick opens doors of a slot that its caller does not hold",
        function="work_tick",
        old="c.organization_id = d.organization_id\n                and c.slot = any (p_slots)",
        new="c.organization_id = d.organization_id",
        tests=(f"{_DOORS}test_no_door_opens_of_a_slot_that_the_caller_does_not_hold",),
    ),
    FunctionFault(
        name="a tick checks an account of another organization",
        function="work_tick",
        old=_ORGANIZATION_OF_DOOR,
        new=_ORGANIZATION_OF_DOOR.replace("and c.organization_id = d.organization_id", "").replace(
            "a.organization_id = d.organization_id and", ""
        ),
        tests=(f"{_ATTACKS}test_a_door_that_names_our_organization_and_their_account_stays_shut",),
    ),
)
_IN_THE_EXECUTOR: Final = (
    SourceFault(
        name="a fill that the executor wrote before counts again",
        file="application/execution/draft_transaction.py",
        old="seen = self.known | {fill.execution_id for fill in self.executions}",
        new="seen = {fill.execution_id for fill in self.executions}",
        tests=(
            f"{_TICKS}test_a_repeated_report_changes_nothing",
            f"{_SAME}test_the_usual_news_need_no_long_way",
        ),
    ),
    SourceFault(
        name="a fill that is reported twice in one tick counts twice",
        file="application/execution/draft_transaction.py",
        old="seen = self.known | {fill.execution_id for fill in self.executions}",
        new="seen = self.known",
        tests=(f"{_SAME}test_all_in_one_tick_give_what_the_long_way_gives",),
    ),
    SourceFault(
        name="earlier trades of a tick show the position after later ones",
        file="application/execution/draft_transaction.py",
        old="replace(event, position=EXACT.subtract(event.position, change))",
        new="event",
        tests=(f"{_SAME}test_all_in_one_tick_give_what_the_long_way_gives",),
    ),
    SourceFault(
        name="a unit that changed meanwhile counts as written",
        file="application/execution/execution_ticks.py",
        old="            if not is_written:\n",
        new="            if is_written is None:\n",
        tests=(f"{_TICKS}test_a_changed_version_takes_the_long_way_and_the_order_is_forgotten",),
    ),
    SourceFault(
        name="an order that took the long way stays in memory",
        file="application/execution/execution_ticks.py",
        old="        self.long_way[why] += 1\n        self.forget(known.action.action_id)\n",
        new="        self.long_way[why] += 1\n",
        tests=(f"{_TICKS}test_a_changed_version_takes_the_long_way_and_the_order_is_forgotten",),
    ),
    SourceFault(
        name="the executor keeps an old version of an order that it wrote",
        file="application/execution/execution_ticks.py",
        old="            known.version += unit.after.order != unit.before.order\n",
        new="",
        tests=(
            f"{_SAME}test_the_usual_news_need_no_long_way",
            f"{_TICKS}test_what_comes_while_a_tick_is_written_goes_with_the_next",
        ),
    ),
    SourceFault(
        name="news that came while a tick failed are lost",
        file="application/execution/execution_ticks.py",
        old="        for each in [*news, *known.news]:\n",
        new="        for each in news:\n",
        tests=(f"{_TICKS}test_news_that_came_while_the_tick_was_written_take_the_long_way_with_it",),
    ),
    SourceFault(
        name="a tick opens doors of accounts with rules",
        file="application/execution/execution_ticks.py",
        old="if each.terms is None or each.terms.has_rules:",
        new="if each.terms is None:",
        tests=(f"{_TICKS}test_an_account_with_rules_is_not_opened",),
    ),
    SourceFault(
        name="a locked account stops the others of its tick",
        file="application/execution/execution_ticks.py",
        old="        if len(account_ids) == 1:\n",
        new="        if account_ids:\n",
        tests=(f"{_TICKS}test_a_locked_account_takes_the_long_way_and_the_others_are_written",),
    ),
    SourceFault(
        name="after a slow tick as many doors open as before",
        file="application/execution/execution_ticks.py",
        old="max(1, self._doors_max // 4) if is_slow",
        new="self._doors_max if is_slow",
        tests=(f"{_TICKS}test_a_slow_tick_makes_the_next_open_fewer_doors",),
    ),
)
FAULTS: Final = (*_OF_UNITS, *_OF_DOORS, *_IN_THE_EXECUTOR)
