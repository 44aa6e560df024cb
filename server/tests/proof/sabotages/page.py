"""The page that lists every deliberate fault with the tests that catch it: python -m proof.sabotages.page."""

from typing import Final

from proof.sabotages import AREAS
from proof.sabotages.fault import ROOT
from simulation.sabotages import SABOTAGES

_INTRODUCTION: Final = """# Sabotage

After reading you know which faults the tests catch. `make proof PART=sabotage` applies each fault alone, and fails
unless a test or the simulation catches it. Made by `make generate`.

## Faults that tests catch

Each fault is patched into a copy of the server's source or of its database. Without a fault all of these tests pass.
With the fault at least one of its tests fails.

| Area | Fault | Where | Tests |
|---|---|---|---|
"""
_SIMULATED: Final = """
## Faults that the simulation catches

Each fault is patched into the code that [the simulation](simulation.md) runs, and the simulation's checker reports
which bars it breaks. [Measurements](measurements.md#sabotage) lists the bars of the last full proof.

| Fault | Kinds of brokers |
|---|---|
"""


def sabotage_page() -> str:
    """docs/sabotage.md."""
    rows = [
        f"| {area} | {fault.name} | {fault.where} | {'<br>'.join(f'`{test}`' for test in fault.tests)} |\n"
        for area, faults in AREAS.items()
        for fault in faults
    ]
    simulated = [f"| {name} | {', '.join(fault.classes)} |\n" for name, fault in SABOTAGES.items()]
    return _INTRODUCTION + "".join(rows) + _SIMULATED + "".join(simulated)


if __name__ == "__main__":
    (ROOT / "docs/sabotage.md").write_text(sabotage_page())
