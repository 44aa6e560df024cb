"""Typical mistakes: each answer tells what would pass, and the documentation shows what is answered."""

from pathlib import Path

from openbell_server.adapters.postgres.connection import Pool
from support.rest.mistake_answers import made_mistakes, mistakes_page
from support.rest.rest_api import RestApi

PAGE = Path(__file__).parents[4] / "docs/mistakes.md"


async def test_every_answer_to_a_mistake_names_the_field_the_rule_and_what_would_pass(api: RestApi, pool: Pool) -> None:
    made, world = await made_mistakes(api, pool)
    assert len(made) >= 30
    assert [fault for each in made for fault in each.faults] == []
    assert PAGE.read_text() == mistakes_page(made, world), "run make generate"
