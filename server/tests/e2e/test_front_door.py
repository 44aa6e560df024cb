"""What a stranger meets: README's blocks, run as printed beside `dev`, and what `dev` prints.

In one file, and so never at once: every `dev` wants the port that everyone expects.
"""

import re
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from openbell_server.devtools.child_processes import wait_until
from openbell_server.devtools.local_platform import ACME, IDENTITY_PROVIDER, OPERATIONS
from support.environment.front_door import (
    ANSWER_SECONDS,
    RunningDev,
    answered,
    left_after_interrupt,
    plain_environment,
    readme_blocks,
    run,
    running_dev,
)

SERVER = [sys.executable, "-m", "openbell_server"]
CLIENT = [str(Path(sys.executable).with_name("openbell"))]


def test_readme_begins_with_what_the_gate_does_too() -> None:
    """The gate makes its own setup in a clone, and test_demo runs the demo; a proof does both as printed."""
    assert [language for language, _ in readme_blocks()] == ["bash", "bash", "bash", "python"]
    three_commands, start = (text.strip().splitlines() for _, text in readme_blocks()[:2])
    assert three_commands[0].startswith("git clone ")
    assert three_commands[1:] == ["make setup", "make demo"]
    assert start == ["make dev"]


def test_what_readme_and_dev_print_works_beside_another_and_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    with running_dev(folders[0], [*SERVER, "dev"]) as dev, running_dev(folders[1], [*SERVER, "dev"]) as beside:
        assert dev.environment["OPENBELL_URL"] != beside.environment["OPENBELL_URL"]
        readme_blocks_work(dev)
        tokens_of_dev_work(dev)
        console_of_dev_works(dev)
        doctors_of_dev_work(dev)
        assert [left_after_interrupt(each) for each in (dev, beside)] == [(0, 0), (0, 0)]
    for folder in folders:
        assert not [*(folder / ".openbell").glob("*issuer*"), *(folder / ".openbell").glob("*.env")]


def test_kept_data_is_there_at_the_next_start_and_belongs_to_one_dev_at_a_time(tmp_path: Path) -> None:
    folder, other = tmp_path / "one", tmp_path / "two"
    # Where also the user can enter who runs PostgreSQL for root.
    with tempfile.TemporaryDirectory() as outside:
        Path(outside).chmod(0o711)
        kept = Path(outside) / "kept"
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        for each in (folder, other):
            each.mkdir()
        command = [*SERVER, "dev", "--keep", str(kept), "--port", str(port)]
        with running_dev(folder, command) as dev:
            settings = dev.environment
            assert settings["OPENBELL_URL"] == f"http://127.0.0.1:{port}"
            intent = run([*CLIENT, "intents", "create", "AAPL", "BUY", "10", "--wait", "--json"], folder, 120, settings)
            assert "FILLED" in intent
            assert stat.S_IMODE(kept.stat().st_mode) == 0o700
            second = [*SERVER, "dev", "--keep", str(kept)]
            assert f"Another dev uses {kept}" in refused(second, other)
            assert f"Port {port} of 127.0.0.1 is taken" in refused([*SERVER, "dev", "--port", str(port)], other)
            no_secret_is_shown(dev)
            dev.interrupt()
            assert f"the data is kept in {kept}" in (folder / "dev.out").read_text()
        with running_dev(other, command) as dev:
            for name in ("OPENBELL_URL", "OPENBELL_ACCOUNT", "OPENBELL_API_KEY"):
                assert dev.environment[name] == settings[name]
            assert '"AAPL"' in run([*CLIENT, "positions", "list", "--json"], other, 120, dev.environment)
            again = run([*CLIENT, "intents", "create", "AAPL", "SELL", "10", "--wait"], other, 120, dev.environment)
            assert "FILLED" in again


def refused(command: list[str], folder: Path) -> str:
    """What dev prints when it does not start."""
    ended = subprocess.run(
        command, cwd=folder, env=plain_environment(), capture_output=True, text=True, timeout=240, check=False
    )
    assert ended.returncode == 1, ended.stdout
    assert "Traceback" not in ended.stderr
    return ended.stderr


def no_secret_is_shown(dev: RunningDev) -> None:
    """In the arguments of processes, which every user of the machine can read."""
    text = "".join((dev.folder / ".openbell" / name).read_text() for name in ("server.env", "executor.env"))
    secrets = re.findall(r"(?<![0-9a-f])[0-9a-f]{32,}", text)
    assert len(secrets) >= 4, "the cursor's, the webhooks', NATS's and its monitor's"
    shown = "".join(Path(f"/proc/{member.pid}/cmdline").read_text() for member in dev.members())
    assert not [secret for secret in secrets if secret in shown]
    for file in (dev.folder / ".openbell").glob("*.env"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def readme_blocks_work(dev: RunningDev) -> None:
    (_, curl), (_, python) = readme_blocks()[2:]
    assert '"intent_id"' in run(["bash", "-euc", curl], dev.folder, 240)
    program = dev.folder / "first.py"
    program.write_text(python)
    assert "FILLED" in run(["bash", "-euc", f". .openbell/dev.env; {sys.executable} {program}"], dev.folder, 240)


def console_of_dev_works(dev: RunningDev) -> None:
    """A browser that opens the printed address chooses a role; without its key it cannot."""
    url = dev.environment["OPENBELL_CONSOLE_URL"].strip("'")
    printed = re.search(rf"{re.escape(url)}/console/login\?login_hint=\S+", (dev.folder / "dev.out").read_text())
    assert printed is not None
    with httpx.Client(timeout=60, trust_env=False) as client:

        def at_the_issuer(address: str) -> tuple[httpx.Response, str]:
            """The page, and the cookie of the sign-in, which a client without TLS would not send back."""
            begun = answered(lambda: client.get(address))
            return client.get(begun.headers["location"]), begun.headers["set-cookie"].partition(";")[0]

        assert at_the_issuer(f"{url}/console/login")[0].status_code == 403
        page, pending = at_the_issuer(printed[0])
        link = re.search(r'href="(choose\?[^"]+role=member)"', page.text)
        assert link is not None
        chosen = client.get(page.url.join(link[1].replace("&amp;", "&")))
        finished = client.get(chosen.headers["location"], headers={"cookie": pending})
        assert (finished.status_code, finished.headers["location"]) == (303, "/console/"), finished.text
        signed_in = {"cookie": finished.headers.get_list("set-cookie")[0].partition(";")[0]}
        me = answered(lambda: client.get(f"{url}/v1/me", headers=signed_in)).json()
        assert (me["principal_id"], me["role"], me["organization"]["name"]) == ("you", "member", "Acme Trading")
        assert client.get(f"{url}/console/", headers=signed_in).headers["content-type"].startswith("text/html")


def tokens_of_dev_work(dev: RunningDev) -> None:
    printed = (dev.folder / "dev.out").read_text()
    assert "openbell --profile dev login" in printed
    sign_in = f". .openbell/dev.env; export OPENBELL_CONFIG=profiles.json; {CLIENT[0]} --profile dev"
    assert "as you of Acme Trading (admin)" in run(["bash", "-euc", f"{sign_in} login"], dev.folder, 120)
    assert "USER you of Acme Trading" in run(["bash", "-euc", f"{sign_in} me"], dev.folder, 120)

    def bearer(*words: str) -> dict[str, str]:
        return {"authorization": f"Bearer {run([*SERVER, 'tokens', 'mint', *words], dev.folder, 120).strip()}"}

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
        entries = answered(lambda: client.get(health, headers=operator)).json()["entries"]
        # The account that dev opens.
        assert [(each["event_type"], each["count"]) for each in entries] == [("account.created", 1)]
        assert [client.get(health, headers=each).status_code for each in (user, service)] == [403, 403]
        assert client.delete("/v1/users/me", headers=user).status_code == 503


def doctors_of_dev_work(dev: RunningDev) -> None:
    def ended(file: str, command: str) -> subprocess.CompletedProcess[str]:
        script = f". .openbell/{file}.env; exec {' '.join(SERVER)} {command}"
        return subprocess.run(
            ["bash", "-euc", script],
            cwd=dev.folder,
            env=plain_environment(),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )

    def is_well() -> bool:
        # On a starved machine it may not be able to tell at first.
        doctors = [ended("server", "doctor --for front"), ended("executor", "doctor --for back")]
        return all(each.returncode == 0 and each.stdout.splitlines()[-1].endswith(" ok.") for each in doctors)

    assert wait_until(is_well, ANSWER_SECONDS), ended("server", "doctor").stdout
    for file, command in (("executor", "vault status"), ("operator", "outbox")):
        found = ended(file, command)
        assert found.returncode == 0, found.stderr
