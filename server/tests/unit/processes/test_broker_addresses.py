"""Where brokers are asked: what an operator may name instead of their own addresses."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest

from openbell_server.brokers.paper.definition import PaperBroker
from openbell_server.brokers.paper.profiles import PAPER, Profile
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.errors import OperatorError
from openbell_server.processes.brokers.addresses import broker_addresses
from openbell_server.processes.doctor import settings_checks
from openbell_server.processes.doctor.findings import Level, Target, look_over
from openbell_server.settings import Settings

LIVE, TRY = "https://api.broker.test", "https://try.broker.test"


def _broker(name: str, **addresses: str) -> PaperBroker:
    able = frozenset(map(Environment, addresses))
    broker = PaperBroker(Profile(name, replace(PAPER.capabilities, environments=able)))
    broker.addresses = {Environment(each): address for each, address in addresses.items()}
    return broker


BOTH = {**BROKERS, "far": _broker("far", paper=TRY, live=LIVE), "near": _broker("near", paper=TRY)}


def _settings(monkeypatch: pytest.MonkeyPatch, addresses: object) -> Settings:
    monkeypatch.setenv("OPENBELL_BROKER_ADDRESSES", json.dumps(addresses))
    return Settings()


def test_each_broker_is_asked_at_its_own_addresses_but_where_the_operator_names_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = _settings(monkeypatch, {"far": {"live": "http://127.0.0.1:9/proxy"}})
    places = broker_addresses(settings, BOTH)
    assert places["far"] == {Environment.PAPER: TRY, Environment.LIVE: "http://127.0.0.1:9/proxy"}
    assert places["near"] == {Environment.PAPER: TRY}
    assert set(places["paper-b"].values()) == {settings.paper_url}
    assert set(places) == set(BOTH)


@pytest.mark.parametrize(
    ("addresses", "says"),
    [
        ({"fra": {"paper": TRY}}, r"an unknown broker, fra; known brokers: .*far"),
        ({"paper": {"paper": TRY}}, "OPENBELL_PAPER_HOST"),
        ({"near": {"live": LIVE}}, "near trades in paper, not in live"),
        ({"far": {"test": TRY}}, "broker_addresses"),
        ({"far": {"paper": "try.broker.test"}}, "must be http"),
        ({"far": {"paper": "ftp://s3cret@try.broker.test"}}, "must be http"),
        ({"far": {"paper": "https:///orders"}}, "must be http"),
        ({"far": {"paper": "https://try.broker.test:99999"}}, "must be http"),
        ({"far": {"paper": "https://[s3cret"}}, "must be http"),
        ({"far": {"paper": LIVE}}, "is the broker's own for live"),
        ({"far": {"paper": "HTTPS://API.Broker.test.:443/"}}, "is the broker's own for live"),
        ({"far": {"paper": "http://s3cret@api.broker.test"}}, "is the broker's own for live"),
        ({"far": {"live": TRY}}, "is the broker's own for paper"),
    ],
)
def test_what_could_send_orders_to_the_wrong_place_is_refused_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, addresses: object, says: str
) -> None:
    with pytest.raises(OperatorError, match=says) as refused:
        broker_addresses(_settings(monkeypatch, addresses), BOTH)
    assert "s3cret" not in str(refused.value)


def test_one_place_for_both_environments_is_no_mistake_where_it_is_the_brokers_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = {"one": _broker("one", paper=LIVE, live=LIVE)}
    settings = _settings(monkeypatch, {"one": {"paper": LIVE}})
    assert broker_addresses(settings, one)["one"][Environment.PAPER] == LIVE


@pytest.mark.parametrize(
    ("addresses", "level"),
    [({}, None), ({"fra": {"paper": TRY}}, Level.PROBLEM), ({"far": {"paper": "http://127.0.0.1:9"}}, Level.WARNING)],
)
async def test_the_doctor_finds_the_same_and_tells_of_every_other_place(
    monkeypatch: pytest.MonkeyPatch, addresses: object, level: Level | None
) -> None:
    monkeypatch.setattr(settings_checks, "BROKERS", BOTH)
    for process, expected in (("executor", level), ("api", None)):
        target = Target(_settings(monkeypatch, addresses), process, cast("Any", None))
        found = await look_over(target, settings_checks.CHECKS)
        assert [each.level for each in found if each.check == "broker_addresses"] == ([expected] if expected else [])
