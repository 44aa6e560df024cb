"""Compare the parameters of two versions of a control: which of them is stricter."""

from collections.abc import Callable, Collection
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final


class Effect(StrEnum):
    """What a change does to the limits on trading; one that does both, or cannot be compared, loosens."""

    TIGHTEN = "TIGHTEN"
    LOOSEN = "LOOSEN"
    NEITHER = "NEITHER"


# Of a value before and after a change that are not equal.
Compare = Callable[[Any, Any], Effect]
# Of a kind's parameters before and after: the effect, and the names of the parameters that loosen.
CompareParameters = Callable[[Any, Any], tuple[Effect, tuple[str, ...]]]


def tightens_if(is_so: bool) -> Effect:
    return Effect.TIGHTEN if is_so else Effect.LOOSEN


def lower(before: Any, after: Any) -> Effect:  # noqa: ANN401 - any ordered type
    """A smaller value is stricter; None cannot be compared."""
    return tightens_if(before is not None and after is not None and after < before)


def lower_or_none(before: Any, after: Any) -> Effect:  # noqa: ANN401 - any ordered type
    """A smaller value is stricter; None is no limit."""
    return tightens_if(after is not None and (before is None or after < before))


def higher(before: Any, after: Any) -> Effect:  # noqa: ANN401 - any ordered type
    """A larger value is stricter, and true is stricter than false."""
    return tightens_if(after > before)


def fewer(before: Collection[Any], after: Collection[Any]) -> Effect:
    """Only what was allowed before may be allowed."""
    return tightens_if(set(after) < set(before))


def more(before: Collection[Any], after: Collection[Any]) -> Effect:
    """Everything that was refused before is refused."""
    return tightens_if(set(after) > set(before))


def coarser(before: Decimal | None, after: Decimal | None) -> Effect:
    """A multiple of the step before is stricter; without a step the input is missing, which cannot be compared."""
    return tightens_if(before is not None and after is not None and not after % before)


def incomparable(_before: Any, _after: Any) -> Effect:  # noqa: ANN401 - any type
    """Any change may allow what was refused."""
    return Effect.LOOSEN


def ranked(*from_loosest: object) -> Compare:
    """Later values are stricter."""

    def compare(before: object, after: object) -> Effect:
        return tightens_if(from_loosest.index(after) > from_loosest.index(before))

    return compare


def by_parameter(**compares: Compare) -> CompareParameters:
    """Compare each named attribute of the parameters. A difference that none of them sees loosens."""

    def compare(before: object, after: object) -> tuple[Effect, tuple[str, ...]]:
        effects: dict[str, Effect] = {}
        for name, of in compares.items():
            old, new = getattr(before, name), getattr(after, name)
            if old != new:
                effects[name] = of(old, new)
        if not effects:
            return (Effect.NEITHER, ()) if before == after else (Effect.LOOSEN, UNDECLARED)
        loosened = tuple(name for name, effect in effects.items() if effect is Effect.LOOSEN)
        return (Effect.LOOSEN, loosened) if loosened else (combined(effects.values()), ())

    return compare


def combined(effects: Collection[Effect]) -> Effect:
    """The effect of several changes at once."""
    for effect in (Effect.LOOSEN, Effect.TIGHTEN):
        if effect in effects:
            return effect
    return Effect.NEITHER


UNDECLARED: Final = ("parameters",)
