"""What a stranger meets: README's blocks, run as printed in a fresh clone, and what `dev` prints.

In one file, and so never at once: every `dev` wants the port that everyone expects.
"""

import re
import sys
from pathlib import Path

import httpx
import pytest

from doc_blocks import ROOT
from front_door import ANSWER_SECONDS, answered, clone, left_after_interrupt, readme_blocks, run, running_dev
from openbell_server.processes.children import wait_until
from openbell_server.processes.local_platform import ACME, IDENTITY_PROVIDER, OPERATIONS

SERVER = [sys.executable, "-m", "openbell_server"]


@pytest.mark.timeout(600)  # a first setup fetches every package
def test_what_readme_prints_works_in_a_fresh_clone(tmp_path: Path) -> None:
    blocks = readme_blocks()
    assert [language for language, _ in blocks] == ["bash", "bash", "bash", "python"]
    three_commands, start, curl, python = (text for _, text in blocks)
    checkout = clone(tmp_path)
    for command in three_commands.strip().splitlines()[1:]:
        run(["bash", "-euc", command], checkout, 300)
    with running_dev(checkout, ["bash", "-euc", f"exec {start.strip()}"]) as dev:
        assert '"intent_id"' in run(["bash", "-euc", curl], checkout, 240)
        program = tmp_path / "first.py"
        program.write_text(python)
        told = run(["bash", "-euc", f". .openbell/dev.env; .venv/bin/python {program}"], checkout, 240)
        assert "FILLED" in told
        assert left_after_interrupt(dev) == (0, 0)


def test_what_dev_prints_leads_to_tokens_and_a_doctor_that_work_and_no_secret_is_left_after_ctrl_c(
    tmp_path: Path,
) -> None:
    with running_dev(tmp_path, [*SERVER, "dev"]) as dev:
        assert f"tokens mint --user you --organization {ACME} --role admin" in (tmp_path / "dev.out").read_text()

        def bearer(*words: str) -> dict[str, str]:
            return {"authorization": f"Bearer {run([*SERVER, 'tokens', 'mint', *words], tmp_path, 120).strip()}"}

        user = bearer("--user", "you", "--organization", ACME, "--role", "admin")
        operator = bearer("--user", "olga", "--organization", OPERATIONS, "--role", "admin")
        service = bearer("--service", "reporter", "--scope", "intent:read")
        with httpx.Client(base_url=dev.environment["OPENBELL_URL"], timeout=60) as client:
            where = f"/v1/organizations/by-provider/{IDENTITY_PROVIDER}/{ACME}"
            found = answered(lambda: client.get(where, headers=user))
            assert found.json()["name"] == "Acme Trading"
            intents = f"/v1/accounts/{dev.environment['OPENBELL_ACCOUNT']}/intents"
            assert answered(lambda: client.get(intents, headers=user)).status_code == 200
            named = service | {"x-organization-id": found.json()["id"]}
            assert answered(lambda: client.get(intents, headers=named)).status_code == 200
            health = "/v1/accounts/outbox/health"
            assert answered(lambda: client.get(health, headers=operator)).json()["entries"] == []
            assert [client.get(health, headers=each).status_code for each in (user, service)] == [403, 403]
            assert client.delete("/v1/users/me", headers=user).status_code == 503

        def is_well() -> bool:
            told = run(["bash", "-euc", f". .openbell/server.env; exec {' '.join(SERVER)} doctor"], tmp_path, 240)
            return told.splitlines()[-1].endswith(" ok.")

        assert wait_until(is_well, ANSWER_SECONDS)
        for file, command in (
            ("executor", "doctor --for executor"),
            ("executor", "vault status"),
            ("operator", "outbox"),
        ):
            run(["bash", "-euc", f". .openbell/{file}.env; exec {' '.join(SERVER)} {command}"], tmp_path, 240)
        dev.interrupt()
    assert not [*(tmp_path / ".openbell").glob("*issuer*"), *(tmp_path / ".openbell").glob("*.env")]


def test_the_documentation_has_no_dead_link_and_its_site_can_be_built() -> None:
    run([str(ROOT / ".venv/bin/python"), "tools/docs.py"], ROOT, 280)


def test_readme_fits_one_screen_and_a_half() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 80
    assert re.search(r"docs/images/\w+\.svg", text)
