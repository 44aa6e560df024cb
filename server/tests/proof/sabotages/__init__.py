"""The faults that the sabotage proof patches into a copy of the source, by the part of the server that they break."""

from collections.abc import Mapping
from typing import Final

from proof.sabotages import (
    accept,
    authorization,
    controls,
    events,
    executor,
    migrations,
    outbox,
    tenancy,
    ticks,
    vault,
    webhooks,
)
from proof.sabotages.fault import Fault

AREAS: Final[Mapping[str, tuple[Fault, ...]]] = {
    "accept": accept.FAULTS,
    "tenancy": tenancy.FAULTS,
    "authorization": authorization.FAULTS,
    "outbox": outbox.FAULTS,
    "vault": vault.FAULTS,
    "webhooks": webhooks.FAULTS,
    "events": events.FAULTS,
    "controls": controls.FAULTS,
    "executor": executor.FAULTS,
    "ticks": ticks.FAULTS,
    "migrations": migrations.FAULTS,
}
