"""When markets are open: sessions in a table that ends, changed by hand where an operator says so."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MarketCalendars:
    """The sessions of every market that is known."""
