"""Changes of positions."""

from enum import StrEnum


class PositionCause(StrEnum):
    """Why a position changed."""

    # A fill of an intent, its bust or its correction.
    EXECUTION = "EXECUTION"
    # A fill of an order that was not submitted here.
    EXTERNAL_ORDER = "EXTERNAL_ORDER"
    # The account held it before its first reconciliation.
    OPENING = "OPENING"
    # A trade elsewhere, a transfer or a split; the broker does not report which.
    UNEXPLAINED = "UNEXPLAINED"
