"""The command `openbell login`, and the tokens that it stored."""

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Final

import typer

from openbell.cli.outcomes import SignInFailed, errors_as_messages
from openbell.cli.plain_text import printable
from openbell.cli.profiles import read_profiles, write_profiles
from openbell.errors import NotAuthenticated, NotConfigured

if TYPE_CHECKING:
    from openbell.access.operations import Me
    from openbell.cli.device_flow import Code, Provider, Tokens

# A token that is about to expire would expire on its way.
MARGIN: Final = timedelta(seconds=30)
_PLATFORM: Final = {"stream": "OPENBELL_STREAM", "account": "OPENBELL_ACCOUNT"}
_PROVIDER: Final = {"issuer": "OPENBELL_LOGIN_ISSUER", "client_id": "OPENBELL_LOGIN_CLIENT_ID"}


def login(
    context: typer.Context,
    issuer: Annotated[
        str | None, typer.Option("--issuer", help="The address of your OpenID provider, or OPENBELL_LOGIN_ISSUER.")
    ] = None,
    client_id: Annotated[
        str | None, typer.Option("--client-id", help="The client at the provider, or OPENBELL_LOGIN_CLIENT_ID.")
    ] = None,
    audience: Annotated[
        str | None, typer.Option("--audience", help="The audience of the token, if the provider needs it.")
    ] = None,
    scope: Annotated[
        str | None, typer.Option("--scope", help="Default: openid, and offline_access where the provider has it.")
    ] = None,
    url: Annotated[str | None, typer.Option("--url", help="The platform's address, or OPENBELL_URL.")] = None,
) -> None:
    """Sign in as a user in a browser, and store the token in the profile. The options are stored with it."""
    with errors_as_messages(as_json=False):
        stored = read_profiles()
        name = context.find_root().params["profile"] or stored["default"] or "default"
        given = {"url": url, "issuer": issuer, "client_id": client_id, "audience": audience, "scope": scope}
        settings = _settings(stored["profiles"].get(name, {}), given)
        tokens = _provider(settings).sign_in(settings.get("scope"), _show_code)
        user = _verified(settings["url"], tokens.access_token)
        _store(name, settings, tokens)
        where = f" of {user.organization.name}" if user.organization else ""
        role = f" ({user.role})" if user.role else ""
        typer.echo(printable(f"Signed in to {settings['url']} as {user.principal_id}{where}{role}."))
        if name != read_profiles()["default"] or os.environ.get("OPENBELL_API_KEY"):
            typer.echo(printable(f"Use it with --profile {name}, or set OPENBELL_PROFILE={name}."))


def current_token(token: str) -> str:
    """The token itself; if it is one of `login` and expired, a new one. Raises NotConfigured if there is none."""
    try:
        profiles: dict[str, dict[str, str]] = read_profiles()["profiles"]
    except ValueError:
        # The token is not from this file: a profile that cannot be read stops a command earlier.
        return token
    name = next((name for name, settings in profiles.items() if settings.get("access_token") == token), None)
    if name is None:
        return token
    settings = profiles[name]
    expires_at = settings.get("token_expires_at")
    if expires_at is None or datetime.now(UTC) < datetime.fromisoformat(expires_at) - MARGIN:
        return token
    if "refresh_token" in settings:
        with suppress(SignInFailed):
            tokens = _provider(settings).refresh(settings["refresh_token"])
            return _store(name, settings, tokens)
        # Another command may have used the refresh token first, and stored what it got.
        renewed = read_profiles()["profiles"].get(name, {}).get("access_token", token)
        if renewed != token:
            return str(renewed)
    raise NotConfigured(
        f"The sign-in of the profile {name} has expired.", f"Run `openbell --profile {name} login` again."
    )


def _settings(stored: dict[str, str], given: dict[str, str | None]) -> dict[str, str]:
    """Options first. The environment counts only if it is about the same platform as the profile."""
    in_environment = os.environ.get("OPENBELL_URL")
    url = given["url"] or stored.get("url") or in_environment
    if not url:
        raise NotConfigured("No address of the platform was given.", "Pass --url, or set OPENBELL_URL.")
    is_same = url.rstrip("/") == (in_environment or "").rstrip("/")
    platform, provider = (
        {setting: os.environ[variable] for setting, variable in names.items() if is_same and variable in os.environ}
        for names in (_PLATFORM, _PROVIDER)
    )
    options = {key: value for key, value in given.items() if value}
    settings = platform | stored | provider | options | {"url": url}
    # It belongs to the earlier sign-in, which may have been another user's.
    settings.pop("refresh_token", None)
    if "issuer" not in settings or "client_id" not in settings:
        raise NotConfigured(
            "The provider to sign in at is not known.",
            "Pass --issuer and --client-id, which your operator has; later sign-ins of the profile reuse them.",
        )
    return settings


def _provider(settings: dict[str, str]) -> "Provider":
    from openbell.cli.device_flow import Provider

    return Provider(settings["issuer"], settings["client_id"], settings.get("audience"))


def _show_code(code: "Code") -> None:
    typer.echo(printable(f"Open {code.address} in a browser and confirm the code {code.user_code}"), err=True)
    typer.echo("Waiting for the confirmation; Ctrl-C ends it …", err=True)


def _verified(url: str, token: str) -> "Me":
    from openbell.client import Client

    with Client(url=url, access_token=token) as client:
        try:
            return client.operations.me()
        except NotAuthenticated as error:
            raise SignInFailed(
                f"The provider signed you in, but {url} does not accept its token.",
                "Compare --issuer and --audience with the platform's OPENBELL_ISSUERS.",
            ) from error


def _store(name: str, settings: dict[str, str], tokens: "Tokens") -> str:
    kept = {key: value for key, value in settings.items() if key not in ("token_expires_at", "refresh_token")}
    kept["access_token"] = tokens.access_token
    if tokens.expires_in is not None:
        kept["token_expires_at"] = (datetime.now(UTC) + timedelta(seconds=tokens.expires_in)).isoformat()
    # A provider may leave out a refresh token that stays the same.
    refresh_token = tokens.refresh_token or settings.get("refresh_token")
    if refresh_token:
        kept["refresh_token"] = refresh_token
    stored = read_profiles()
    stored["profiles"][name] = kept
    stored["default"] = stored["default"] or name
    write_profiles(stored)
    return tokens.access_token
