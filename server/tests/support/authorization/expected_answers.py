"""What the authorization table says about one call: the checks in the contract's order, the first failure answers."""

from collections.abc import Iterator
from dataclasses import dataclass

from support.authorization.callers import ADMIN, CALLERS, HOMELESS, LIVE, PAPER, Caller, Header, Home, Kind
from support.authorization.table import ENTITLEMENT_SETS, PREMIUM, ROWS, TRADING, Object, Row


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, and the problem's code if it is a refusal."""

    status: int
    code: str = ""

    @property
    def refused(self) -> bool:
        return self.status >= 400


@dataclass(frozen=True, slots=True)
class Cell:
    """One call of the cross product."""

    caller: Caller
    row: Row
    object: Object
    entitlements: frozenset[str]

    @property
    def home(self) -> Home:
        """Whose call it is: the object may be that its organization is disabled."""
        return Home.SHUT if self.object is Object.DISABLED_ORGANIZATION else self.caller.home

    @property
    def environment(self) -> str:
        """Of the account; a key's own is the key's, everybody else's first is paper."""
        other = self.object is Object.OTHER_ENVIRONMENT
        return self.caller.environment if not other else {PAPER: LIVE, LIVE: PAPER}[self.caller.environment]

    @property
    def name(self) -> str:
        entitled = " and ".join(sorted(self.entitlements)) or "no entitlement"
        return f"{self.caller.name} × {self.row.name} × {self.object} × {entitled}"


def all_cells() -> Iterator[Cell]:
    """Every call, those of one caller and one set of entitlements together."""
    for caller in CALLERS:
        for entitlements in ENTITLEMENT_SETS:
            for row in ROWS:
                for target in row.objects:
                    yield Cell(caller, row, target, entitlements)


def expected(cell: Cell) -> Answer:
    """What the contract says."""
    caller = cell.caller
    if caller.kind is Kind.TWO:
        return Answer(400, "ambiguous_credentials")
    own_rules = {
        "show me": _everybodys,
        "list brokers": _everybodys,
        "list calendars": _everybodys,
        "list sessions": _everybodys,
        "list control kinds": _everybodys,
        "validate key": _validation,
        "look up organization": _lookup,
        "delete me": _deletion,
        "outbox health": _outbox_health,
        "outboxes": _outboxes,
    }.get(cell.row.name)
    if own_rules is not None:
        return own_rules(cell)
    return (
        _unauthenticated(caller)
        or _not_permitted(caller, cell.row)
        or _wrong_header(caller)
        or _not_of_this_key(cell)
        or _absent(cell.object)
        or _not_on_this_account(cell)
        or _not_entitled(cell)
        or _stopped(cell)
        or _absent_inside(cell.object)
        or Answer(cell.row.success)
    )


def _unauthenticated(caller: Caller) -> Answer | None:
    if caller.kind is Kind.API_KEY and caller.flaw == "disabled":
        return Answer(401, "key_disabled")
    if caller.kind is Kind.NOBODY or caller.flaw:
        return Answer(401, "unauthenticated")
    return None


def _not_permitted(caller: Caller, row: Row) -> Answer | None:
    needed = {Kind.API_KEY: row.api_key, Kind.USER: row.user, Kind.SERVICE: row.service}[caller.kind]
    if needed is None:
        return Answer(403, "principal_kind_not_allowed")
    holds = {caller.role} if caller.kind is Kind.USER else caller.holds
    if needed and needed.isdisjoint(holds):
        return Answer(403, "permission_denied")
    return None


def _wrong_header(caller: Caller) -> Answer | None:
    """A service account names the organization it works for; nobody else may name another than its own."""
    if caller.kind is Kind.SERVICE:
        if caller.header in {Header.ABSENT, Header.MALFORMED}:
            return Answer(400, "invalid_header")
        return Answer(404, "not_found") if caller.header is Header.UNKNOWN else None
    if caller.home in HOMELESS:
        return Answer(403, "organization_required")
    return _anothers_header(caller)


def _not_of_this_key(cell: Cell) -> Answer | None:
    """A key changes nothing of another one, whether it exists or not; users must name the key."""
    is_key = cell.caller.kind is Kind.API_KEY
    if cell.row.name in {"put key heartbeat", "delete key heartbeat"} and is_key:
        return Answer(403, "permission_denied")
    return Answer(400, "invalid_parameter") if "own heartbeat" in cell.row.name and not is_key else None


def _anothers_header(caller: Caller) -> Answer | None:
    if caller.kind is not Kind.SERVICE and caller.header is Header.FOREIGN:
        return Answer(403, "organization_mismatch")
    return None


def _absent(target: Object) -> Answer | None:
    """A foreign thing is as if it were not."""
    return Answer(404, "not_found") if target in {Object.FOREIGN, Object.MISSING} else None


def _absent_inside(target: Object) -> Answer | None:
    return Answer(404, "not_found") if target in {Object.FOREIGN_INTENT, Object.MISSING_INTENT} else None


def _not_on_this_account(cell: Cell) -> Answer | None:
    if cell.caller.kind is Kind.API_KEY and cell.object is Object.OTHER_ENVIRONMENT:
        return Answer(403, "environment_mismatch")
    return None


def _not_entitled(cell: Cell) -> Answer | None:
    on_live = cell.environment == LIVE
    if cell.row.premium and PREMIUM not in cell.entitlements:
        return Answer(403, "entitlement_required")
    if cell.row.trading and on_live and TRADING not in cell.entitlements:
        return Answer(403, "entitlement_required")
    return None


def _stopped(cell: Cell) -> Answer | None:
    if cell.home is Home.SHUT and Object.DISABLED_ORGANIZATION in cell.row.stopped_by:
        return Answer(409, "organization_disabled")
    if cell.object is Object.DISABLED_ACCOUNT and Object.DISABLED_ACCOUNT in cell.row.stopped_by:
        return Answer(409, "account_disabled")
    return None


def _everybodys(cell: Cell) -> Answer:
    """They are nobody's: whoever is somebody may see them, with or without an organization."""
    return _unauthenticated(cell.caller) or _anothers_header(cell.caller) or Answer(200)


def _validation(cell: Cell) -> Answer:
    """Of the key itself whatever its state, or of any key by a service account; all that is no key answers alike."""
    caller = cell.caller
    wrong = Answer(401, "unauthenticated")
    if caller.kind is Kind.API_KEY:
        refused = wrong if caller.flaw in {"revoked", "expired"} else _anothers_header(caller)
        # Whether there is such a key is nobody's to know.
        return refused or (Answer(403, "permission_denied") if _absent(cell.object) else Answer(200))
    refused = _unauthenticated(caller) or _not_permitted(caller, cell.row)
    return refused or (wrong if cell.object is Object.MISSING else Answer(200))


def _lookup(cell: Cell) -> Answer:
    """A service account reads any organization; a user those that it belongs to."""
    caller = cell.caller
    refused = _unauthenticated(caller) or _not_permitted(caller, cell.row) or _anothers_header(caller)
    if refused is not None:
        return refused
    if caller.kind is Kind.SERVICE:
        found = cell.object is not Object.MISSING
    elif cell.object is Object.SECOND:
        found = caller.in_two
    else:
        found = caller.home not in HOMELESS and _absent(cell.object) is None
    return Answer(200) if found else Answer(404, "not_found")


def _deletion(cell: Cell) -> Answer:
    """A user with an organization; whoever else calls is told one word."""
    caller = cell.caller
    if caller.kind is not Kind.USER or caller.home in HOMELESS:
        return Answer(401, "unauthorized")
    return _anothers_header(caller) or Answer(204)


def _outbox_health(cell: Cell) -> Answer:
    """401 for API keys and for users without an organization, 403 for everybody else who may not."""
    caller = cell.caller
    if caller.kind in {Kind.NOBODY, Kind.API_KEY} or caller.home is Home.NONE:
        return Answer(401)
    if caller.kind is Kind.SERVICE:
        return Answer(200) if "credential:read" in caller.holds else Answer(403)
    admitted = caller.role == ADMIN and caller.home is Home.INTERNAL
    return Answer(200) if admitted else Answer(403)


def _outboxes(cell: Cell) -> Answer:
    """For the same callers as outbox health; those who may not are answered as everywhere else."""
    caller = cell.caller
    refused = _unauthenticated(caller) or (None if caller.kind is Kind.USER else _not_permitted(caller, cell.row))
    if refused is not None or caller.kind is not Kind.USER:
        return refused or Answer(200)
    if caller.home is Home.NONE:
        return Answer(403, "organization_required")
    admitted = caller.role == ADMIN and caller.home is Home.INTERNAL
    return Answer(200) if admitted else Answer(403, "permission_denied")
