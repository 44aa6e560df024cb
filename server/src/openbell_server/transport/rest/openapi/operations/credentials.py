"""OpenAPI rows of broker credentials."""

from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from msgspec.structs import replace

from openbell_server.domain.access.authorization import Operation
from openbell_server.domain.access.credentials import CredentialStatus
from openbell_server.transport.rest.access.credentials import CredentialBody, CredentialRequest
from openbell_server.transport.rest.openapi.operation import ETAG, IF_MATCH, Described

_CREDENTIAL: Final = "/v1/accounts/{account_id}/credentials"
_MADE: Final = datetime(2026, 1, 5, 9, 30, tzinfo=UTC)
_EXAMPLE: Final = CredentialBody(
    id=UUID("01981d3c-7a00-7000-8000-000000000009"),
    account_id=UUID("01981d3c-7a00-7000-8000-000000000002"),
    broker="paper",
    kind="paper_key",
    hint="K7Q2",
    status=CredentialStatus.UNVERIFIED,
    created_at=_MADE,
    updated_at=_MADE,
    version=1,
)

CREDENTIAL_OPERATIONS: Final[tuple[Described, ...]] = (
    Described(
        method="PUT",
        path=_CREDENTIAL,
        operation_id="putCredential",
        summary="Set the credential of an account",
        description="Creates or replaces the credential of the account at its broker; the broker defines the field "
        "names. Secrets are encrypted at once and never returned. Executors sign in with the new version before they "
        "send anything else, without a restart. Omitted fields are removed.",
        operation=Operation.EDIT_CREDENTIALS,
        parameters=(IF_MATCH,),
        body=CredentialRequest,
        body_examples={
            "paper": {"fields": {"key_id": "PK-2026-K7Q2", "secret": "correct horse battery staple"}},
            "expiring": {
                "fields": {"key_id": "PK-2026-K7Q2", "secret": "correct horse battery staple"},
                "expires_at": "2036-01-05T09:30:00Z",
            },
        },
        answer_example=_EXAMPLE,
        answer_headers={"ETag": ETAG},
        codes=(
            "organization_disabled",
            "account_closed",
            "concurrent_change",
            "credentials_not_supported",
            "vault_missing",
            "vault_unavailable",
        ),
    ),
    Described(
        path=_CREDENTIAL,
        operation_id="showCredential",
        summary="Read the credential of an account",
        description="The current state of the credential, without its secrets; 404 if the account has none.",
        operation=Operation.READ_CREDENTIALS,
        answer_example=_EXAMPLE,
        answer_headers={"ETag": ETAG},
    ),
    Described(
        method="DELETE",
        path=_CREDENTIAL,
        operation_id="deleteCredential",
        summary="Remove the credential of an account",
        description="Removes the credential and destroys its secrets. If the broker requires one, the account sends "
        "no new orders afterwards.",
        operation=Operation.EDIT_CREDENTIALS,
        status=204,
        parameters=(IF_MATCH,),
        codes=("organization_disabled", "account_closed"),
    ),
    Described(
        method="POST",
        path=f"{_CREDENTIAL}/verify",
        operation_id="verifyCredential",
        summary="Verify the credential at the broker",
        description="An executor signs in with the credential now, and you get the broker's response within five "
        "seconds.",
        operation=Operation.EDIT_CREDENTIALS,
        answer_example=replace(_EXAMPLE, status=CredentialStatus.VALID, verified_at=_MADE),
        answer_headers={"ETag": ETAG},
        codes=("organization_disabled", "account_closed", "external_account_mismatch", "verification_unanswered"),
    ),
)
