"""How long what was read of a caller is believed, by a clock moved by hand."""

import hmac
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from uuid import uuid4

import pytest

from openbell_server.application.access.authenticate import CACHE_ROWS_MAX, Authenticate, Credential, read_credential
from openbell_server.application.access.ports.access_tokens import TokenCaller
from openbell_server.domain.access import api_keys
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import OrganizationId
from support.identity.identity_provider import NOW, Verifier, good_token

TEXT, PRESENTED = api_keys.mint(Environment.PAPER, bytes(range(api_keys.ENTROPY_BYTES)))
KEY = api_keys.ApiKey(
    id=str(uuid4()),
    key_id=PRESENTED.key_id,
    organization_id=OrganizationId(uuid4()),
    environment=Environment.PAPER,
    permissions=frozenset(),
    own_orders_only=False,
    account_ids=None,
    secret_hash=PRESENTED.secret_hash,
    disabled=False,
    revoked_at=None,
    expires_at=None,
    created_at=datetime.fromtimestamp(NOW, UTC),
)


@dataclass
class Records:
    """The store, and how often it was asked."""

    key: api_keys.ApiKey | None = KEY
    is_denied: bool = False
    seconds: float = 0.0
    asked: int = 0
    verifier: Verifier = field(default_factory=Verifier)
    used: list[str] = field(default_factory=list)

    async def find_key_across_organizations(self, key_id: str) -> api_keys.ApiKey | None:
        self.asked += 1
        return self.key if self.key and self.key.key_id == key_id else None

    async def find_caller_across_organizations(
        self, provider: str, subject: str, external_organization_id: str | None
    ) -> TokenCaller:
        del provider, subject, external_organization_id
        self.asked += 1
        return TokenCaller(self.is_denied, None, is_internal=False)

    def authenticate(self) -> Authenticate:
        return Authenticate(
            self,
            self,
            self.verifier.tokens,
            lambda: self.seconds,
            lambda: datetime.fromtimestamp(NOW, UTC),
            self.used.append,
        )


async def refusal(entering: Authenticate, credential: Credential) -> str:
    with pytest.raises(Problem) as refused:
        await entering(credential)
    return refused.value.code


async def test_a_key_that_was_revoked_is_refused_before_a_second_has_passed() -> None:
    records, credential = Records(), Credential(api_key=TEXT)
    entering = records.authenticate()
    await entering(credential)
    records.key = replace(KEY, revoked_at=datetime.fromtimestamp(NOW, UTC))
    records.seconds = 0.95
    assert await refusal(entering, credential) == "unauthenticated"


async def test_a_user_who_was_denied_is_refused_before_a_second_has_passed() -> None:
    records, credential = Records(), Credential(token=good_token())
    entering = records.authenticate()
    await entering(credential)
    records.is_denied = True
    records.seconds = 0.95
    assert await refusal(entering, credential) == "unauthenticated"


async def test_the_database_is_asked_once_for_callers_of_the_same_moment() -> None:
    records = Records()
    entering = records.authenticate()
    for _ in range(10):
        await entering(Credential(api_key=TEXT))
    assert records.asked == 1


async def test_strangers_cannot_fill_the_memory() -> None:
    records = Records()
    entering = records.authenticate()
    for number in range(CACHE_ROWS_MAX + 5):
        text, _ = api_keys.mint(Environment.PAPER, number.to_bytes(api_keys.ENTROPY_BYTES))
        await refusal(entering, Credential(api_key=text))
    assert len(entering._recent._rows) <= CACHE_ROWS_MAX


@pytest.mark.parametrize(
    "stored",
    [
        None,
        replace(KEY, secret_hash=bytes(32)),
        replace(KEY, revoked_at=datetime.fromtimestamp(NOW, UTC)),
        replace(KEY, expires_at=datetime.fromtimestamp(NOW, UTC)),
        replace(KEY, environment=Environment.LIVE),
    ],
    ids=["unknown", "wrong", "revoked", "expired", "other environment"],
)
async def test_every_bad_key_takes_one_look_and_one_comparison(
    stored: api_keys.ApiKey | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[int] = []
    compare = hmac.compare_digest

    def counted(left: bytes, right: bytes) -> bool:
        compared.append(len(left))
        return compare(left, right)

    monkeypatch.setattr(hmac, "compare_digest", counted)
    records = Records(key=stored)
    assert await refusal(records.authenticate(), Credential(api_key=TEXT)) == "unauthenticated"
    assert (records.asked, compared) == (1, [32])


def test_a_credential_does_not_show_itself() -> None:
    shown = repr(read_credential([TEXT], [])) + repr(read_credential([], ["Bearer abc.def.ghi"]))
    assert TEXT not in shown
    assert "abc" not in shown
