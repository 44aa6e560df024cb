"""Caps of an organization: one table, from which settings, refusals and the page follow."""

from pathlib import Path

import pytest

from openbell_server.domain.access.caps import CAPS, Cap, caps_with
from openbell_server.domain.errors import CODES, CapReached
from openbell_server.settings import Settings

DOCS = Path(__file__).resolve().parents[4] / "docs"


@pytest.mark.parametrize("cap", CAPS.values(), ids=list(CAPS))
def test_each_cap_has_a_setting(cap: Cap, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings().caps[cap.name] == cap
    monkeypatch.setenv(cap.setting, "7")
    assert Settings().caps == caps_with({cap.name: 7})


@pytest.mark.parametrize("cap", CAPS.values(), ids=list(CAPS))
def test_each_cap_is_a_row_of_the_page(cap: Cap) -> None:
    beyond = "sent later" if cap.code is None else f"{CODES[cap.code].status} `{cap.code}`"
    row = f"| {cap.bounds} | {cap.limit:,} | {cap.counted} | {beyond} | `{cap.setting}` |"
    assert row in (DOCS / "limits.md").read_text().splitlines()
    assert f"`{cap.setting}`" in (DOCS / "settings.md").read_text()


@pytest.mark.parametrize("cap", [cap for cap in CAPS.values() if cap.code], ids=lambda cap: cap.name)
def test_a_refusal_names_the_cap_its_value_and_its_setting(cap: Cap) -> None:
    refusal = cap.refusal()
    assert all(part in refusal.detail for part in (cap.bounds, f" {cap.limit};", cap.setting, "operator"))
    # A caller may try again soon where something ends by itself.
    assert isinstance(refusal, CapReached) == (CODES[refusal.code].status == 429)
