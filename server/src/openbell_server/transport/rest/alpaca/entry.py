"""How a bot signs in with Alpaca's headers: the account's id is the key id, an API key of Openbell is the secret."""

from uuid import UUID

from openbell_server.application.access.authenticate import Credential
from openbell_server.domain.errors import Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.transport.rest.entry import AnyRequest

PREFIX = "/alpaca"
KEY_ID_HEADER = "apca-api-key-id"
SECRET_HEADER = "apca-api-secret-key"  # noqa: S105 - the name of a header


def alpaca_credential_of(request: AnyRequest) -> Credential:
    secrets = request.headers.getall(SECRET_HEADER, [])
    if len(secrets) > 1:
        raise Problem("ambiguous_credentials", f"{SECRET_HEADER} was sent more than once")
    return Credential(api_key=secrets[0]) if secrets else Credential()


def account_id_of(request: AnyRequest) -> AccountId:
    sent = request.headers.getall(KEY_ID_HEADER, [])
    return account_id_from(sent[0] if len(sent) == 1 else None)


def account_id_from(key_id: object) -> AccountId:
    try:
        return AccountId(UUID(str(key_id)))
    except ValueError:
        message = f"{KEY_ID_HEADER} must be the id of an account, {SECRET_HEADER} an API key"
        raise Problem("unauthenticated", message) from None
