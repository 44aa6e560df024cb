"""Rules and halts of one organization, for statements that another must not reach them by."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from openbell_server.domain.findings import Scope


def values_of_rules(now: datetime) -> dict[str, Any]:
    """A value for every parameter that statements about rules have to themselves."""
    return (
        {"scope": Scope.ACCOUNT, "terms": "{}", "override_terms": None, "override_expires_at": None}
        | {"before_version": None, "rule_before": None, "rule_after": None, "changed_at": now, "whose": UUID(int=0)}
        | {"halted_at": now - timedelta(hours=1), "of_key": None}
    )
