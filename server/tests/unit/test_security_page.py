"""The security page shows which roles the login of each process may take, and what it can do."""

import re

from openbell_server.adapters.postgres.connection import LOGIN_ROLES
from proof.abuses import ABUSES, SECURITY_PAGE, documented_powers


def test_the_page_lists_the_roles_of_each_login_as_they_are_granted() -> None:
    _, _, section = SECURITY_PAGE.read_text().partition("| Login of | Roles |\n|---|---|\n")
    rows = section.partition("\n\n")[0].splitlines()
    listed = {row.split("|")[1].strip(): tuple(re.findall(r"`(\w+)`", row)) for row in rows}
    assert listed == LOGIN_ROLES


def test_every_row_of_the_table_of_powers_is_tried_by_the_proof() -> None:
    powers = documented_powers()
    assert set(powers) <= {abuse.name for abuse in ABUSES}
    assert all(powers.values())


def test_the_stream_s_login_reads_only() -> None:
    can = {name for name, processes in documented_powers().items() if "stream" in processes}
    assert can == {"read orders and events", "read hashes of API keys"}
