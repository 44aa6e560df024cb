"""Where a user belongs is asked for once a minute, and remembered for a bounded number of users."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

import pytest

from openbell_server.application.access import find_organization
from openbell_server.application.access.find_organization import CACHE_SECONDS, LookUpOrganization, Organization
from openbell_server.application.access.ports.identity_provider import ProviderUnavailable
from openbell_server.domain.access.principals import Caller, PrincipalKind
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId
from support.identity.identity_provider import Clock


@dataclass(slots=True)
class Provider:
    """Implements IdentityProvider: everybody belongs to what it says now."""

    organizations: frozenset[str] = frozenset({"org_1"})
    away: bool = False
    asked: list[str] = field(default_factory=list)

    async def memberships(self, user_id: str) -> frozenset[str]:
        self.asked.append(user_id)
        if self.away:
            raise ProviderUnavailable
        return self.organizations

    async def delete_user(self, user_id: str) -> None:
        raise NotImplementedError


class Everything:
    """Implements OrganizationStore: has every organization."""

    async def find_organization_across_organizations(self, provider: str, external_id: str) -> Organization | None:
        return Organization(
            id=OrganizationId(UUID(int=1)),
            external_id=external_id,
            name="Acme",
            provider=provider,
            disabled=False,
            created_at=datetime(2026, 1, 5, tzinfo=UTC),
        )


@dataclass(slots=True)
class Lookup:
    """The use case with a clock that is moved by hand."""

    provider: Provider = field(default_factory=Provider)
    clock: Clock = field(default_factory=Clock)
    look_up: LookUpOrganization = field(init=False)

    def __post_init__(self) -> None:
        self.look_up = LookUpOrganization(Everything(), "workos", self.provider, self.clock.monotonic)

    async def finds(self, user: str, external_id: str, issuer_provider: str = "workos") -> bool:
        caller = Caller(kind=PrincipalKind.USER, id=user, provider=issuer_provider)
        try:
            return (await self.look_up(caller, "workos", external_id)).external_id == external_id
        except Problem as problem:
            if problem.code != "not_found":
                raise
            return False


async def test_a_membership_that_was_given_or_taken_is_seen_after_a_minute() -> None:
    lookup = Lookup()
    assert await lookup.finds("ann", "org_1")
    lookup.provider.organizations = frozenset({"org_2"})
    lookup.clock.seconds += CACHE_SECONDS - 0.1
    assert [await lookup.finds("ann", each) for each in ("org_1", "org_2")] == [True, False]
    assert lookup.provider.asked == ["ann"]
    lookup.clock.seconds += 0.1
    assert [await lookup.finds("ann", each) for each in ("org_1", "org_2")] == [False, True]
    assert lookup.provider.asked == ["ann", "ann"]


async def test_an_old_answer_is_not_given_for_a_provider_that_is_away() -> None:
    lookup = Lookup()
    assert await lookup.finds("ann", "org_1")
    lookup.clock.seconds += CACHE_SECONDS
    lookup.provider.away = True
    with pytest.raises(Problem) as trouble:
        await lookup.finds("ann", "org_1")
    assert trouble.value.code == "identity_provider_unavailable"


async def test_the_user_who_was_asked_about_first_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(find_organization, "CACHE_USERS_MAX", 2)
    lookup = Lookup()
    for user in ("ann", "bob", "ann", "cid", "bob", "cid", "ann"):
        assert await lookup.finds(user, "org_1")
    assert lookup.provider.asked == ["ann", "bob", "cid", "ann"]


async def test_users_of_another_provider_are_not_looked_for_in_this_one() -> None:
    lookup = Lookup()
    assert not await lookup.finds("ann", "org_1", issuer_provider="okta")
    assert lookup.provider.asked == []
