"""How a request gets in: one credential, who sent it, how often, and whether they may; and the headers it brings."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from litestar import Request

from openbell_server.application.authenticate import Authenticate, Credential, read_credential
from openbell_server.application.limit_rates import LimitRates
from openbell_server.domain.authorization import Operation, admit, require, require_own
from openbell_server.domain.errors import FieldProblem, InvalidParameter, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.domain.principals import Caller, Principal, PrincipalKind

_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")
_TAGS = re.compile(r'(W/)?"[\x21\x23-\x7e]*"(\s*,\s*(W/)?"[\x21\x23-\x7e]*")*')
# A weak tag of a version, or one that we would write otherwise, is no version of ours.
_VERSION_TAG = re.compile(r'(?<!/)"(0|[1-9][0-9]{0,9})"')
AnyRequest = Request[Any, Any, Any]


@dataclass(frozen=True, slots=True)
class Enter:
    """Lets a request in, or answers it; every route begins with one of these calls."""

    authenticate: Authenticate
    limit: LimitRates

    async def __call__(self, request: AnyRequest, operation: Operation) -> Principal:
        """The caller as a principal of the one organization that the operation is about."""
        caller = await self.authenticate(credential_of(request))
        await self.limit.read(caller)
        return _admitted(request, caller, operation)

    async def with_command(
        self, request: AnyRequest, account_id: AccountId, is_cancel: Callable[[], Awaitable[bool]]
    ) -> Principal:
        """The same for a command to an account, of which nothing but its type is looked at before."""
        caller = await self.authenticate(credential_of(request))
        await self.limit.command(caller, account_id, cancels=await is_cancel())
        return _admitted(request, caller, Operation.SUBMIT_INTENT)

    async def anywhere(self, request: AnyRequest, operation: Operation) -> Caller:
        """The caller, for an operation that is about no one organization."""
        caller = await self.authenticate(credential_of(request))
        await self.limit.read(caller)
        require(caller, operation)
        if caller.kind is not PrincipalKind.SERVICE:
            require_own(caller.organization_id, organization_header_of(request))
        refuse_unknown_query(request)
        return caller


def credential_of(request: AnyRequest) -> Credential:
    """The one credential that a request brought."""
    return read_credential(request.headers.getall("x-api-key", []), request.headers.getall("authorization", []))


def _admitted(request: AnyRequest, caller: Caller, operation: Operation) -> Principal:
    principal = admit(caller, operation, organization_header_of(request))
    refuse_unknown_query(request)
    return principal


def refuse_unknown_query(request: AnyRequest) -> None:
    """Refuse a query parameter that the operation does not take: a misspelled one would change nothing in silence."""
    names = request.app.state.query_names(request.method, request.scope["path_template"])
    for name in request.query_params:
        if names is not None and name not in names:
            known = (
                f"is not known here; known are: {', '.join(names)}" if names else "is not known: there are none here"
            )
            raise InvalidParameter(name[:64], known, "unknown")


def organization_header_of(request: AnyRequest) -> str | None:
    """The organization that the request names, if it does."""
    sent = request.headers.getall("x-organization-id", [])
    # Twice is never one organization; joined it is no UUID, and is refused as that.
    return ", ".join(sent) if sent else None


def idempotency_key_of(request: AnyRequest) -> str | None:
    """The Idempotency-Key, if one was sent."""
    keys = request.headers.getall("idempotency-key", [])
    if not keys:
        return None
    if len(keys) > 1 or not _VISIBLE.fullmatch(keys[0]):
        message = "must be one header of 1 to 255 visible ASCII characters"
        raise Problem(
            "invalid_parameter",
            f"Idempotency-Key {message}",
            (FieldProblem("/headers/idempotency-key", "invalid", message),),
        )
    return keys[0]


def etag_of(version: int) -> dict[str, str]:
    """The header that tells the version of what an answer shows."""
    return {"etag": f'"{version}"'}


def if_match_of(request: AnyRequest) -> frozenset[int] | None:
    """The versions that the request may change, by If-Match; None for any."""
    sent = request.headers.getall("if-match", [])
    if not sent or sent == ["*"]:
        return None
    tags = ", ".join(sent)
    if not _TAGS.fullmatch(tags):
        message = 'must be * or what ETag said, such as "3"'
        raise Problem("invalid_header", f"If-Match {message}", (FieldProblem("/headers/if-match", "invalid", message),))
    return frozenset(int(version) for version in _VERSION_TAG.findall(tags))
