"""A result as text, JSON, JUnit and SVG."""

import json
from xml.etree import ElementTree as ET

from torture_bot import LOST, a_bot

from openbell_torture import report
from openbell_torture.timeline import svg


async def test_every_finding_is_in_every_form_of_the_report() -> None:
    async with a_bot(**LOST) as bot:
        await bot.post(1)
        await bot.post(1)
        result = bot.result()
    assert len(result.findings) == 3
    text = report.text(result)
    assert "1 orders wanted, 2 orders at the broker, 2.00 per order wanted" in text
    assert "        doubled  1\n  lost track of  2\n    unprotected  0\n" in text
    again = "openbell-torture --plan lost-answers --seed 7 -- python 'my bot.py'"
    assert text.endswith(f"again: {again}")
    told = json.loads(report.as_json(result))
    assert [each["weakness"] for each in told["findings"]] == ["doubled", "lost track of", "lost track of"]
    assert [each["number"] for each in told["requests"]] == [1, 2]
    assert (told["positions"], told["replay"]) == ({"AAPL": "2"}, again)
    suite = ET.fromstring(report.junit(result))
    assert (suite.get("tests"), suite.get("failures")) == ("4", "2")
    assert [case.get("name") for case in suite if case.find("failure") is not None] == ["doubled", "lost track of"]
    assert svg(result).count("<circle") == 2


async def test_a_run_without_orders_says_where_the_broker_is() -> None:
    async with a_bot() as bot:
        assert "APCA_API_BASE_URL" in report.text(bot.result())
