"""Request and response bodies of rules and switches."""

from typing import Annotated, Any
from uuid import UUID

from msgspec import UNSET, Meta, Struct, UnsetType, structs

from openbell_server.application.controls.ports.rules import RuleChange
from openbell_server.application.controls.set_rules import WantedRule, WantedSwitch, switch_state
from openbell_server.application.paging import Page
from openbell_server.domain.controls.findings import Mode, Scope
from openbell_server.domain.controls.rules import Address, OnMissing, Override, RuleTerms, StoredRule, SwitchState
from openbell_server.transport.rest.wire_types import Moment, PageOf, ReasonText, body_from, in_utc

Parameters = Annotated[dict[str, Any], Meta(description="the parameters that the rule's code defines", max_length=32)]


class RuleRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Set a rule. With expires_at it is an override: the earlier terms apply again after that time."""

    mode: Mode
    parameters: Parameters
    reason: ReasonText
    on_missing: OnMissing | None = None
    expires_at: Moment | None = None

    def to_wanted(self) -> WantedRule:
        terms = RuleTerms(mode=self.mode, on_missing=self.on_missing, parameters=self.parameters)
        expires_at = in_utc(self.expires_at)
        change = terms if expires_at is None else Override(terms=terms, expires_at=expires_at)
        return WantedRule(change=change, reason=self.reason)


class SwitchRequest(Struct, forbid_unknown_fields=True, frozen=True):
    """Set a switch; cancel_working also cancels working orders, and needs a status that stops trading."""

    status: SwitchState
    reason: ReasonText
    cancel_working: bool = False

    def to_wanted(self) -> WantedSwitch:
        return WantedSwitch(state=self.status, cancel_working=self.cancel_working, reason=self.reason)


class TermsBody(Struct, frozen=True):
    """Terms of a rule; an override has expires_at."""

    mode: Mode
    parameters: dict[str, Any]
    on_missing: OnMissing | UnsetType = UNSET
    expires_at: Moment | UnsetType = UNSET


class PlacedBody(Struct, frozen=True, kw_only=True):
    """What rules and switches have in common: where they are set."""

    organization_id: UUID
    scope: Scope
    account_id: UUID | UnsetType = UNSET
    symbol: str | UnsetType = UNSET
    api_key_id: UUID | UnsetType = UNSET


class RuleBody(PlacedBody, frozen=True, kw_only=True):
    """A rule: its permanent terms, its override, and which of them is in force."""

    code: str
    in_force: TermsBody
    version: int
    created_at: Moment
    updated_at: Moment
    principal_type: str
    principal_id: str
    terms: TermsBody | UnsetType = UNSET
    override: TermsBody | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class RuleListBody(PageOf[RuleBody], frozen=True):
    """A page of rules, in the order in which they were first set."""


class RuleChangeBody(PlacedBody, frozen=True, kw_only=True):
    """One change of a rule or switch; before is absent if it was created, after if it was removed."""

    code: str
    version: int
    changed_at: Moment
    principal_type: str
    principal_id: str
    before: RuleBody | UnsetType = UNSET
    after: RuleBody | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class RuleChangePageBody(PageOf[RuleChangeBody], frozen=True):
    """A page of changes, newest first."""


class SwitchBody(PlacedBody, frozen=True, kw_only=True):
    """A switch; one that was never set is ACTIVE at version 0."""

    status: SwitchState
    cancel_working: bool
    version: int
    reason: str | UnsetType = UNSET
    created_at: Moment | UnsetType = UNSET
    updated_at: Moment | UnsetType = UNSET
    principal_type: str | UnsetType = UNSET
    principal_id: str | UnsetType = UNSET


class SwitchListBody(PageOf[SwitchBody], frozen=True):
    """A page of switches, in the order in which they were first set."""


def rule_body(rule: StoredRule) -> RuleBody:
    """The rule; the store omits expired overrides."""
    terms = UNSET if rule.terms is None else _terms_body(rule.terms)
    override = UNSET if rule.override is None else _terms_body(rule.override)
    in_force = terms if override is UNSET else override
    assert in_force is not UNSET, "a rule without terms is not there"
    principal_type, principal_id = rule.principal
    return body_from(
        RuleBody,
        rule,
        rule.address,
        in_force=in_force,
        principal_type=principal_type,
        principal_id=principal_id,
        terms=terms,
        override=override,
    )


def change_page_body(page: Page[RuleChange]) -> RuleChangePageBody:
    return RuleChangePageBody([_change_body(change) for change in page.rows], page.next_cursor, page.last_cursor)


def rule_list_body(page: Page[StoredRule]) -> RuleListBody:
    return RuleListBody([rule_body(rule) for rule in page.rows], page.next_cursor, page.last_cursor)


def switch_list_body(page: Page[StoredRule]) -> SwitchListBody:
    return SwitchListBody([switch_body(switch) for switch in page.rows], page.next_cursor, page.last_cursor)


def unset_switch_list_body(address: Address) -> SwitchListBody:
    """The list of one switch that was never set."""
    placed = body_from(PlacedBody, address)
    return SwitchListBody(
        [SwitchBody(**structs.asdict(placed), status=SwitchState.ACTIVE, cancel_working=False, version=0)]
    )


def switch_body(switch: StoredRule) -> SwitchBody:
    assert switch.terms is not None, "a switch is never set for a time"
    principal_type, principal_id = switch.principal
    return body_from(
        SwitchBody,
        switch,
        switch.address,
        status=switch_state(switch),
        cancel_working=switch.terms.parameters.get("cancel_working", False),
        principal_type=principal_type,
        principal_id=principal_id,
    )


def _terms_body(set_: RuleTerms | Override) -> TermsBody:
    terms = set_.terms if isinstance(set_, Override) else set_
    expires_at = set_.expires_at if isinstance(set_, Override) else None
    return body_from(TermsBody, terms, parameters=dict(terms.parameters), expires_at=expires_at)


def _change_body(change: RuleChange) -> RuleChangeBody:
    principal_type, principal_id = change.principal
    return body_from(
        RuleChangeBody,
        change,
        change.address,
        principal_type=principal_type,
        principal_id=principal_id,
        before=None if change.before is None else rule_body(change.before),
        after=None if change.after is None else rule_body(change.after),
    )
