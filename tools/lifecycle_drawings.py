"""The two machines of the lifecycle as drawings, made of the tables that the code runs on."""

from collections.abc import Iterable
from typing import Final

from drawings import arrow, box, sheet

from openbell_server.domain.orders import action_lifecycle, order_aggregate
from openbell_server.domain.orders.action_lifecycle import SETTLED, ActionState
from openbell_server.domain.orders.order_aggregate import Standing

# Where each state stands: its middle. A state without a place fails loudly.
ACTIONS: Final = {
    ActionState.QUEUED: (75, 40),
    ActionState.SKIPPED: (405, 40),
    ActionState.DISPATCHING: (75, 130),
    ActionState.SENT: (240, 130),
    ActionState.UNKNOWN: (405, 210),
    ActionState.ACKED: (66, 340),
    ActionState.REFUSED: (182, 340),
    ActionState.FAILED: (298, 340),
    ActionState.ABANDONED: (414, 340),
}
ORDERS: Final = {Standing.NONE: (75, 70), Standing.WORKING: (240, 70), Standing.CLOSED: (405, 70)}
KINDS: Final = {ActionState.ACKED: "good", ActionState.REFUSED: "bad", ActionState.UNKNOWN: "warm"}


def actions() -> str:
    """What may follow what; a step to ACKED from what was settled is drawn below, dashed."""
    parts = []
    for before, after in action_lifecycle.STEPS:
        if before in SETTLED:
            (x1, y1), (x2, y2) = ACTIONS[before], ACTIONS[after]
            depth = y1 + 30 + (x1 - x2) / 6
            parts.append(arrow((x1, y1 + 18), (x1, depth), (x2, depth), (x2, y2 + 20), dashed=True))
        else:
            parts.append(_step(ACTIONS[before], ACTIONS[after]))
    parts += [_state(state.value, place, KINDS.get(state, "")) for state, place in ACTIONS.items()]
    return sheet(450, "The states of an action and what may follow each", parts)


def orders() -> str:
    """How an order can stand; steps that stay where they are are in the table."""
    steps = {
        (before, after) for row in order_aggregate.STEPS.values() for before, afters in row.items() for after in afters
    }
    parts = list(_order_steps(sorted((before, after) for before, after in steps if before is not after)))
    parts += [_state(state.value, place, "") for state, place in ORDERS.items()]
    return sheet(112, "The standings of an order and what may follow each", parts)


def _order_steps(steps: list[tuple[Standing, Standing]]) -> Iterable[str]:
    """Neighbours side by side; a step over a neighbour goes around it, and one back runs below the one forth."""
    for before, after in steps:
        (x1, y), (x2, _) = ORDERS[before], ORDERS[after]
        if abs(x1 - x2) > 200:
            yield arrow((x1, y - 18), (x1, 24), (x2, 24), (x2, y - 20))
        else:
            shift = -6 if x1 < x2 else 6
            side = 53 if x1 < x2 else -53
            yield arrow((x1 + side, y + shift), (x2 - side, y + shift))


def _state(name: str, place: tuple[int, int], kind: str) -> str:
    return f'<g class="state">{box(place[0] - 53, place[1] - 18, 106, name, kind)}</g>'


def _step(start: tuple[int, int], end: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:
        side = 53 if x1 < x2 else -53
        return arrow((x1 + side, y1), (x2 - side - 1, y2))
    lean = (x2 - x1) / 12
    return arrow((x1 + lean, y1 + 18), (x2 - lean, y2 - 19))


LIFECYCLES: Final = {"lifecycle-actions": actions, "lifecycle-orders": orders}
