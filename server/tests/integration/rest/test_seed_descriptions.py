"""The founding contract on the description of the interface."""

from support.rest.rest_api import RestApi


async def test_the_accounts_description_carries_version_0_1_0(api: RestApi) -> None:
    answer = await api.client.get("/openapi/accounts.json")
    assert answer.status_code == 200
    assert answer.json()["info"]["version"] == "0.1.0"
