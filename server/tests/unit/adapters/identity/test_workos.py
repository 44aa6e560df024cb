"""WorkOS by its own SDK, over real sockets: what it is asked, what is believed, and how long we wait."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
from workos import AsyncWorkOSClient, NotFoundError

from openbell_server.adapters.identity import workos as adapter
from openbell_server.adapters.identity.workos import WorkOSProvider
from openbell_server.application.access.ports.identity_provider import ProviderUnavailable
from openbell_server.domain.errors import OperatorError
from support.identity.workos_provider import API_KEY, FAULTS, WorkOS, workos


@dataclass(frozen=True, slots=True)
class Reached:
    """WorkOS, and our way to it."""

    workos: WorkOS
    ours: WorkOSProvider


def provider(client: httpx.AsyncClient, base_url: str, api_key: str = API_KEY) -> WorkOSProvider:
    return WorkOSProvider(client, api_key=api_key, client_id="client_1", base_url=base_url)


@pytest.fixture
async def reached() -> AsyncIterator[Reached]:
    async with workos() as loopback, httpx.AsyncClient() as client:
        yield Reached(loopback, provider(client, loopback.url))


async def test_the_loopback_speaks_workos_by_the_word_of_its_sdk() -> None:
    async with workos() as loopback:
        loopback.add_member("user_1", "org_1")
        sdk = AsyncWorkOSClient(api_key=API_KEY, base_url=loopback.url, max_retries=0)
        async with sdk:
            page = await sdk.organization_membership.list_organization_memberships(user_id="user_1")
            assert [(row.user_id, row.organization_id, row.status) for row in page.data] == [
                ("user_1", "org_1", "active")
            ]
            assert (await sdk.organizations.get_organization("org_1")).name == "Name of org_1"
            with pytest.raises(NotFoundError):
                await sdk.organizations.get_organization("org_2")
            await sdk.user_management.delete_user("user_1")
            with pytest.raises(NotFoundError) as missing:
                await sdk.user_management.delete_user("user_1")
            assert missing.value.code == "entity_not_found"


async def test_active_memberships_of_the_user_are_found_and_no_others(reached: Reached) -> None:
    for organization, status in (("org_1", "active"), ("org_2", "inactive"), ("org_3", "pending"), ("org_4", "active")):
        reached.workos.add_member("user_1", organization, status)
    reached.workos.add_member("user_2", "org_5")
    assert await reached.ours.memberships("user_1") == {"org_1", "org_4"}
    assert await reached.ours.memberships("user_9") == frozenset()


async def test_memberships_are_read_to_the_last_page(reached: Reached) -> None:
    wanted = {f"org_{number}" for number in range(adapter.PAGE_ROWS * 2 + 1)}
    for organization in sorted(wanted):
        reached.workos.add_member("user_1", organization)
    assert await reached.ours.memberships("user_1") == wanted
    assert len(reached.workos.asked) == 3


async def test_no_more_memberships_are_read_than_the_bound(reached: Reached, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapter, "MEMBERSHIPS_MAX", 150)
    for number in range(400):
        reached.workos.add_member("user_1", f"org_{number}")
    assert len(await reached.ours.memberships("user_1")) == 150
    assert len(reached.workos.asked) == 2


async def test_a_deleted_user_is_gone_and_deleting_again_is_done_as_well(reached: Reached) -> None:
    reached.workos.add_member("user_1", "org_1")
    reached.workos.add_member("user_2", "org_1")
    await reached.ours.delete_user("user_1")
    await reached.ours.delete_user("user_1")
    assert reached.workos.users == {"user_2"}


# The answer to a deletion has no shape to be wrong.
TROUBLE = [("memberships", fault) for fault in FAULTS] + [
    ("delete_user", fault) for fault in FAULTS if fault != "shape"
]


@pytest.mark.parametrize(("call", "fault"), TROUBLE)
async def test_every_answer_that_is_none_is_trouble_and_asked_for_once(
    reached: Reached, monkeypatch: pytest.MonkeyPatch, call: str, fault: str
) -> None:
    monkeypatch.setattr(adapter, "CALL_SECONDS", 2.0 if fault in {"slow", "dripping"} else 60.0)
    reached.workos.add_member("user_1", "org_1")
    reached.workos.fault = fault
    async with httpx.AsyncClient() as client:
        ours = provider(client, reached.workos.url)
        with pytest.raises(ProviderUnavailable):
            await getattr(ours, call)("user_1")
    assert len(reached.workos.asked) == 1


async def test_a_provider_that_is_silent_or_slow_costs_two_seconds(reached: Reached) -> None:
    for fault in ("slow", "dripping"):
        reached.workos.fault = fault
        begun = time.monotonic()
        with pytest.raises(ProviderUnavailable):
            await reached.ours.delete_user("user_1")
        assert time.monotonic() - begun < adapter.CALL_SECONDS + 1


async def test_a_wrong_key_and_nobody_at_the_address_are_trouble(reached: Reached) -> None:
    reached.workos.add_member("user_1", "org_1")
    async with httpx.AsyncClient() as client:
        for ours in (provider(client, reached.workos.url, "sk_wrong"), provider(client, "http://127.0.0.1:1")):
            with pytest.raises(ProviderUnavailable):
                await ours.delete_user("user_1")
    assert reached.workos.users == {"user_1"}


@pytest.mark.parametrize("user", ["..", ".", "user_1/../user_2", "user_2?x=", "%2e%2e"])
async def test_no_user_s_id_leads_to_another_call(reached: Reached, user: str) -> None:
    reached.workos.add_member("user_2", "org_1")
    try:
        await reached.ours.delete_user(user)
    except ProviderUnavailable:
        assert user in {".", ".."}
    assert reached.workos.users == {"user_2"}


async def test_the_key_is_sent_to_no_address_without_encryption() -> None:
    async with httpx.AsyncClient() as client:
        with pytest.raises(OperatorError, match="must be https"):
            provider(client, "http://workos.test")
