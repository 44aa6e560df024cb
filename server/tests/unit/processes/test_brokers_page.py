"""The page of the brokers is made from their definitions, and a new one needs no edit."""

from pathlib import Path

from brokers_page import brokers_page

from openbell_server.brokers.paper.definition import PaperBroker
from openbell_server.brokers.paper.profiles import PAPER, Profile
from openbell_server.brokers.registry import BROKERS
from openbell_server.domain.access.accounts import broker_and_profile
from openbell_server.transport.rest.access.brokers import broker_body

PAGE = Path(__file__).parents[4] / "docs/brokers.md"


def test_the_committed_page_is_made_of_the_definitions() -> None:
    assert PAGE.read_text() == brokers_page(BROKERS), "run make generate"


def test_every_broker_has_a_column_and_a_section_with_what_ends_a_doubt() -> None:
    added = PaperBroker(Profile("another", PAPER.capabilities))
    page = brokers_page({**BROKERS, "another": added})
    for name, broker in {**BROKERS, "another": added}.items():
        title = " ".join(filter(None, broker_and_profile(name)))
        assert f"| [{title}](#{title.replace(' ', '-').lower()}) |" in page
        section = page.split(f"\n## {title}\n")[1].split("\n## ")[0]
        for command, said in broker_body(broker).commands.items():
            assert f"- **{command}**, ids `{said.id_class}`. {said.settles_by}\n" in section
        assert broker.credentials is None or f"`{broker.credentials.kind}`" in section
