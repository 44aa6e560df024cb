"""Checks authentication: the keys of each issuer, and the WorkOS API key."""

import time
from email.utils import parsedate_to_datetime
from typing import Final

import httpx

from openbell_server.adapters.identity.jwks import BYTES_MAX, read_keys
from openbell_server.adapters.identity.openid_provider import OpenIdConnect
from openbell_server.application.access.ports.identity_provider import ProviderUnavailable
from openbell_server.application.console.ports import ProviderAway
from openbell_server.domain.access.access_tokens import LEEWAY_SECONDS, Issuer
from openbell_server.domain.errors import OperatorError
from openbell_server.processes.authentication import wall_clock
from openbell_server.processes.doctor.findings import CALLED, Check, Result, Target, fine, problem

_ASKING: Final = frozenset({"api", "relay"})


async def _issuers(target: Target) -> Result:
    issuers = target.settings.issuers
    if not issuers:
        return fine("No issuer is configured: callers use API keys only.")
    troubles = [trouble for issuer in issuers if (trouble := await _trouble_of(target.client, issuer))]
    if troubles:
        what, fix = troubles[0]
        others = f" (and {len(troubles) - 1} more)" if len(troubles) > 1 else ""
        return problem(f"{what}{others}.", fix)
    return fine(f"The keys of {len(issuers)} issuer(s) can be fetched and used.")


async def _trouble_of(client: httpx.AsyncClient, issuer: Issuer) -> tuple[str, str] | None:
    check = f"Check jwks_address of {issuer.name} in OPENBELL_ISSUERS, and that this machine can reach it."
    try:
        response = await client.get(issuer.jwks_address, headers={"accept-encoding": "identity"})
        response.raise_for_status()
    except httpx.HTTPError as error:
        return f"The keys of {issuer.name} cannot be fetched ({type(error).__name__})", check
    try:
        keys = read_keys(response.content[: BYTES_MAX + 1])
    except ValueError:
        return f"The address of {issuer.name} returns no key set", check
    if not any(key.algorithm_name in issuer.algorithms for key in keys.values()):
        wanted = ", ".join(sorted(issuer.algorithms))
        return (
            f"{issuer.name} has no usable key",
            f"Configure it to sign with one of {wanted}, and with ids on its keys.",
        )
    try:
        ahead = parsedate_to_datetime(response.headers["date"]).timestamp() - time.time()
    except (KeyError, ValueError):
        return None
    if abs(ahead) > LEEWAY_SECONDS:
        remedy = "Synchronize this machine by NTP: tokens are refused when clocks differ this much."
        return f"The clock of {issuer.name} is {abs(ahead):.0f} s off from ours", remedy
    return None


async def _workos(target: Target) -> Result:
    settings = target.settings
    api_key = settings.workos_api_key.get_secret_value()
    if settings.identity_provider != "workos" or not api_key:
        return fine("No identity provider is configured.")
    # Slow to import and not always needed.
    from openbell_server.adapters.identity.workos import WorkOSProvider

    provider = WorkOSProvider(
        target.client, api_key=api_key, client_id=settings.workos_client_id, base_url=settings.workos_base_url
    )
    try:
        await provider.memberships("user_nobody")
    except ProviderUnavailable:
        return problem(
            "WorkOS did not accept our key: users cannot be deleted, and their organizations cannot be found.",
            "Check OPENBELL_WORKOS_API_KEY and OPENBELL_WORKOS_BASE_URL, and that this machine can reach it.",
        )
    return fine("WorkOS accepts our key.")


async def _console(target: Target) -> Result:
    settings = target.settings
    if not (settings.console_issuer and settings.console_client_id):
        return problem("The console has no identity provider.", "Set OPENBELL_CONSOLE_ISSUER and its client.")
    try:
        provider = OpenIdConnect(
            target.client, issuer=settings.console_issuer, client_id=settings.console_client_id, now=wall_clock
        )
        await provider.sign_in_address(redirect="", state="", nonce="", challenge="", login_hint=None)
    except (OperatorError, ProviderAway) as error:
        return problem(
            f"Nobody can sign in to the console: {error}.",
            "Check OPENBELL_CONSOLE_ISSUER: the address, to the letter, that the provider's metadata has as `issuer`.",
        )
    return fine("The console's provider describes how users sign in.")


CHECKS: Final = (
    Check("identity", "console", _console, frozenset({"console"})),
    Check("identity", "issuers", _issuers, CALLED),
    Check("identity", "workos", _workos, _ASKING),
)
