"""Settings that cannot be read are said in a sentence, never with their value."""

import secrets

import pytest

from openbell_server.domain.access.principals import PrincipalKind
from openbell_server.domain.errors import OperatorError
from openbell_server.settings import Settings

ISSUER = '{"name":"n","jwks_address":"https://p.test/keys","audience":"a","token_type":"JWT","kind":"SERVICE"}'


def test_issuers_are_read_from_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBELL_ISSUERS", f"[{ISSUER}]")
    (issuer,) = Settings().issuers
    assert (issuer.kind, issuer.provider, issuer.claim_names.organization) == (
        PrincipalKind.SERVICE,
        "workos",
        "org_id",
    )


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("OPENBELL_ISSUERS", "s3cret", "issuers"),
        ("OPENBELL_ISSUERS", '[{"name": "s3cret"}]', "issuers.0.audience: Field required"),
        ("OPENBELL_API_PORT", "s3cret", "api_port"),
        ("OPENBELL_WEBHOOK_KEY", "s3cret" * 5, "webhook_key: it needs 32 characters or more"),
        ("OPENBELL_WEBHOOK_PRIVATE_TARGETS", "true", "webhook_private_targets"),
        ("OPENBELL_WEBHOOK_PRIVATE_TARGETS", '["s3cret"]', "webhook_private_targets: each must be host:port"),
    ],
)
def test_a_setting_that_cannot_be_read_is_named_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, says: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(OperatorError, match=says) as refused:
        Settings()
    assert "s3cret" not in str(refused.value)


def test_what_settings_print_of_themselves_has_no_address_with_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    names = (
        "database_url",
        "paper_database_url",
        "nats_url",
        "redis_url",
        "otlp_url",
        "cursor_secret",
        "paper_secret",
        "workos_api_key",
        "webhook_key",
    )
    for name in names:
        monkeypatch.setenv(f"OPENBELL_{name.upper()}", "nats://openbell:s3cret@127.0.0.1")
    settings = Settings()
    assert "s3cret" not in f"{settings} {settings!r}"


@pytest.mark.parametrize("secret", ["", "s3cret", "s3cret" * 5, "s3cret" * 20])
def test_a_process_does_not_start_with_a_secret_for_cursors_that_can_be_guessed(secret: str) -> None:
    with pytest.raises(OperatorError, match="OPENBELL_CURSOR_SECRET") as refused:
        Settings(cursor_secret=secret).cursor_key()
    assert "s3cret" not in str(refused.value)


def test_a_generated_secret_for_cursors_is_good() -> None:
    assert Settings(cursor_secret=secrets.token_hex(32)).cursor_key()
