"""Whether an error tells its reader what to do: every typical mistake, made at the REST application."""

import asyncio
import sys
from pathlib import Path

from openbell_server.adapters.postgres.connection import open_pool
from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from proof.figures import Figures
from support.rest.mistake_answers import made_mistakes, mistakes_page
from support.rest.rest_api import rest_api

PAGE = Path(__file__).parents[3] / "docs/mistakes.md"
MISTAKES_MIN = 30


def prove(figures: Figures) -> None:
    with LocalServices() as services:
        create_databases(services.postgres.url())
        migrate(services.postgres.url("openbell"))
        asyncio.run(_prove(figures, services.postgres.url("openbell")))


async def _prove(figures: Figures, url: str) -> None:
    async with await open_pool(url) as pool, rest_api(pool) as api:
        made, world = await made_mistakes(api, pool)
    figures.at_least("typical mistakes made", len(made), MISTAKES_MIN)
    figures.shown("codes among the answers", len({each.answer.json()["code"] for each in made}))
    helpful = [each for each in made if not each.faults]
    figures.exactly("answers that name the field, the rule and what would pass", len(helpful), len(made))
    page = mistakes_page(made, world)
    figures.exactly("lines of docs/mistakes.md that are not so", _differences(page), 0)
    for each in made:
        for fault in each.faults:
            print(fault, file=sys.stderr)


def _differences(page: str) -> int:
    committed = PAGE.read_text().splitlines() if PAGE.exists() else []
    return len(set(page.splitlines()) ^ set(committed))


def write_page() -> None:
    """For `make generate`: the page with the answers of this code."""

    async def made(url: str) -> None:
        async with await open_pool(url) as pool, rest_api(pool) as api:
            PAGE.write_text(mistakes_page(*await made_mistakes(api, pool)))

    with LocalServices() as services:
        create_databases(services.postgres.url())
        migrate(services.postgres.url("openbell"))
        asyncio.run(made(services.postgres.url("openbell")))


if __name__ == "__main__":
    write_page()
