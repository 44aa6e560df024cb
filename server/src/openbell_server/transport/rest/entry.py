"""Checks that every route runs first (authentication, rate limit, authorization), and reads headers."""

import re
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

from litestar import Request

from openbell_server.application.access.authenticate import Authenticate, Credential, read_credential
from openbell_server.application.access.rate_limits import LimitRates
from openbell_server.application.access.reads_at_once import ReadsAtOnce
from openbell_server.domain.access.authorization import Operation, admit, require, require_listed, require_own
from openbell_server.domain.access.principals import Caller, Principal, PrincipalKind
from openbell_server.domain.errors import FieldProblem, InvalidParameter, Problem
from openbell_server.domain.identifiers import AccountId
from openbell_server.http_protocol import keep_connection

_VISIBLE = re.compile(r"[\x21-\x7e]{1,255}")
_REQUEST_ID = re.compile(rb"[0-9A-Za-z_-]{1,64}")
_TAGS = re.compile(r'(W/)?"[\x21\x23-\x7e]*"(\s*,\s*(W/)?"[\x21\x23-\x7e]*")*')
# Weak tags and version numbers in another spelling (such as "03") match no version.
_VERSION_TAG = re.compile(r'(?<!/)"(0|[1-9][0-9]{0,9})"')
AnyRequest = Request[Any, Any, Any]
# Method, route template (None if no route matched), status, and duration in seconds.
ObserveRequest = Callable[[str, str | None, int, float], None]
# Browsers must not guess another type, and no cache may keep trading data.
NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")
NO_STORE: Final = (b"cache-control", b"no-store")
# No number of these at once is refused: orders, cancels, halts and heartbeats must work while their organization reads
# a lot. Validations of keys are limited by address.
UNCOUNTED: Final = frozenset(
    {
        Operation.SUBMIT_INTENT,
        Operation.CANCEL_ORDERS,
        Operation.SUBMIT_DESK_COMMAND,
        Operation.EDIT_CONTROLS,
        Operation.EDIT_ORGANIZATION_CONTROLS,
        Operation.PROMISE_HEARTBEATS,
        Operation.VALIDATE_KEY,
    }
)
_END_READ: Final = "openbell.end_read"


@dataclass(frozen=True, slots=True)
class Enter:
    """Authenticates, rate-limits and authorizes a request, or raises a Problem; every route calls it first."""

    authenticate: Authenticate
    limit: LimitRates
    reads: ReadsAtOnce
    # Which headers the credential is read from.
    credential_of: Callable[[AnyRequest], Credential] = lambda request: credential_of(request)

    async def __call__(self, request: AnyRequest, operation: Operation) -> Principal:
        """Admit the caller to the one organization that the operation concerns."""
        caller = await self._authenticated(request)
        await self.limit.read(caller)
        principal = _admitted(request, caller, operation)
        if operation not in UNCOUNTED:
            await self._begin_read(request, principal.organization_id)
        return principal

    async def with_command(
        self, request: AnyRequest, account_id: AccountId, is_cancel: Callable[[], Awaitable[bool]]
    ) -> Principal:
        """Admit a command. Before admission only its type is read, because cancels have their own rate limit."""
        caller = await self._authenticated(request)
        try:
            principal = _admitted(request, caller, Operation.SUBMIT_INTENT)
            require_listed(principal, account_id)
        except Problem:
            # Counted for the caller, not for the account: others must not use up the account's limit.
            await self.limit.read(caller)
            raise
        await self.limit.command(caller, account_id, cancels=await is_cancel())
        return principal

    async def anywhere(self, request: AnyRequest, operation: Operation) -> Caller:
        """Admit the caller to an operation that is not limited to one organization."""
        caller = await self._authenticated(request)
        await self.limit.read(caller)
        require(caller, operation)
        if caller.kind is not PrincipalKind.SERVICE:
            require_own(caller.organization_id, organization_header_of(request))
        refuse_unknown_query(request)
        await self._begin_read(request, caller.organization_id or caller.id)
        return caller

    async def _begin_read(self, request: AnyRequest, whose: Hashable) -> None:
        scope: Any = request.scope
        scope[_END_READ] = await self.reads.begin(whose)

    async def _authenticated(self, request: AnyRequest) -> Caller:
        return await self.authenticated(self.credential_of(request), request.scope)

    async def authenticated(self, credential: Credential, scope: Any) -> Caller:  # noqa: ANN401 - of HTTP or a WebSocket
        try:
            caller = await self.authenticate(credential)
        except Problem as problem:
            if problem.code == "unauthenticated":
                await self.limit.guess(address_of(scope))
            raise
        keep_connection(scope, caller.organization_id or caller.id)
        return caller


def end_read(scope: Any) -> None:  # noqa: ANN401 - the framework's type does not know our key
    """The request no longer counts as one of its organization's reads."""
    if end := scope.pop(_END_READ, None):
        end()


def address_of(scope: Any) -> str:  # noqa: ANN401 - of HTTP or a WebSocket
    client = scope.get("client")
    return str(client[0]) if client else ""


def request_id_of(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The caller's id of the request if it is valid, else a new one."""
    sent = next((value for name, value in headers if name == b"x-request-id"), b"")
    return sent if _REQUEST_ID.fullmatch(sent) else uuid4().hex.encode()


def credential_of(request: AnyRequest) -> Credential:
    return read_credential(request.headers.getall("x-api-key", []), request.headers.getall("authorization", []))


def _admitted(request: AnyRequest, caller: Caller, operation: Operation) -> Principal:
    principal = admit(caller, operation, organization_header_of(request))
    refuse_unknown_query(request)
    return principal


def refuse_unknown_query(request: AnyRequest) -> None:
    """Refuse unknown query parameters: a misspelled filter would otherwise be ignored silently."""
    names = request.app.state.query_names(request.method, request.scope["path_template"])
    for name in request.query_params:
        if names is not None and name not in names:
            known = (
                f"is not known here; known are: {', '.join(names)}" if names else "is not known: there are none here"
            )
            raise InvalidParameter(name[:64], known, "unknown")


def organization_header_of(request: AnyRequest) -> str | None:
    sent = request.headers.getall("x-organization-id", [])
    # Two headers joined are not a UUID, so the request is refused.
    return ", ".join(sent) if sent else None


def idempotency_key_of(request: AnyRequest) -> str | None:
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
    return {"etag": f'"{version}"'}


def if_match_of(request: AnyRequest) -> frozenset[int] | None:
    """The versions that If-Match permits to change; None permits any version."""
    sent = request.headers.getall("if-match", [])
    if not sent or sent == ["*"]:
        return None
    tags = ", ".join(sent)
    if not _TAGS.fullmatch(tags):
        message = 'must be * or the value of an ETag header, such as "3"'
        raise Problem("invalid_header", f"If-Match {message}", (FieldProblem("/headers/if-match", "invalid", message),))
    return frozenset(int(version) for version in _VERSION_TAG.findall(tags))
