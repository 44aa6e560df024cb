"""The settings of the two processes that the command `all` runs."""

import os
import pwd

import pytest

from openbell_server.domain.errors import OperatorError
from openbell_server.processes.supervisor import check_settings, command_of, environment_of

LOGINS = {
    "OPENBELL_FRONT_DATABASE_URL": "postgresql://front@/openbell",
    "OPENBELL_BACK_DATABASE_URL": "postgresql://back@/openbell",
}


def test_a_process_receives_its_own_settings_and_those_of_both_but_none_of_the_other() -> None:
    given = LOGINS | {"PATH": "/bin", "OPENBELL_NATS_URL": "nats://n", "OPENBELL_BACK_VAULT_KEY": "file:private"}
    assert environment_of("front", given) == {
        "PATH": "/bin",
        "OPENBELL_NATS_URL": "nats://n",
        "OPENBELL_DATABASE_URL": "postgresql://front@/openbell",
    }
    assert environment_of("back", given)["OPENBELL_VAULT_KEY"] == "file:private"


def test_a_setting_of_one_process_comes_before_that_of_both() -> None:
    given = LOGINS | {"OPENBELL_LOG_LEVEL": "INFO", "OPENBELL_BACK_LOG_LEVEL": "DEBUG"}
    assert environment_of("back", given)["OPENBELL_LOG_LEVEL"] == "DEBUG"
    assert environment_of("front", given)["OPENBELL_LOG_LEVEL"] == "INFO"


def test_logins_of_their_own_are_enough() -> None:
    check_settings(LOGINS)


@pytest.mark.parametrize("name", ["DATABASE_URL", "VAULT_KEY", "OPERATIONS_PORT"])
def test_what_each_process_must_have_apart_is_not_set_for_both(name: str) -> None:
    with pytest.raises(OperatorError, match=rf"set OPENBELL_FRONT_{name} and OPENBELL_BACK_{name} instead"):
        check_settings(LOGINS | {f"OPENBELL_{name}": "1"})


@pytest.mark.parametrize("missing", LOGINS)
def test_a_missing_login_is_named(missing: str) -> None:
    with pytest.raises(OperatorError, match=f"Set {missing} in the environment"):
        check_settings({name: value for name, value in LOGINS.items() if name != missing})


def test_one_login_for_both_is_refused() -> None:
    with pytest.raises(OperatorError, match="are the same"):
        check_settings(dict.fromkeys(LOGINS, "postgresql://one@/openbell"))


def test_a_process_may_have_a_user_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    nobody = pwd.getpwnam("nobody")
    given = LOGINS | {"OPENBELL_BACK_USER": "nobody"}
    check_settings(given)
    assert f"--reuid={nobody.pw_uid}" in command_of("back", given)
    assert not [word for word in command_of("front", given) if word.startswith("--reuid")]


def test_only_root_starts_processes_of_other_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(OperatorError, match="OPENBELL_FRONT_USER is set, and only root"):
        check_settings(LOGINS | {"OPENBELL_FRONT_USER": "nobody"})


def test_a_user_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(OperatorError, match="names a user that does not exist"):
        check_settings(LOGINS | {"OPENBELL_BACK_USER": "nobody-of-this-name"})
