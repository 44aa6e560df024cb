"""Typed settings, read from environment variables OPENBELL_<NAME> by processes and the command line only."""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import Field, PositiveFloat, PositiveInt, SecretStr, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from openbell_server.domain.access.access_tokens import Issuer, is_safe_address
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.access.caps import CAPS, Cap, caps_with
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.events.webhook_targets import ANY_TARGET
from openbell_server.domain.events.webhooks import KEY_LENGTH_MIN

# A secret with few different characters was not generated.
SECRET_CHARACTERS_MIN: Final = 8


def is_guessable(secret: str) -> bool:
    return len(secret) < KEY_LENGTH_MIN or len(set(secret)) < SECRET_CHARACTERS_MIN


class Settings(BaseSettings):
    """Settings of one process.

    Raises OperatorError if a value cannot be read; the message never includes the value, which may be a secret.
    """

    model_config = SettingsConfigDict(env_prefix="OPENBELL_", extra="ignore")

    # postgresql://… of the platform's database, and of the paper broker's own ledger.
    database_url: SecretStr = SecretStr("")
    paper_database_url: SecretStr = SecretStr("")
    # nats://…, where processes notify each other. Empty: they find work by looking, a little later. It may contain a
    # password, so it is not shown in text, like other addresses below.
    nats_url: str = Field(default="", repr=False)
    # redis://… where all api and stream processes share rate limits. Empty: each process counts its own calls.
    redis_url: SecretStr = SecretStr("")
    # Signs page cursors and resume tokens; must be the same on every replica.
    cursor_secret: SecretStr = SecretStr("")
    api_host: str = "127.0.0.1"
    api_port: int = 8080
    # Whether api serves Alpaca's trading API too, below /alpaca, for bots that were written for it.
    alpaca_front: bool = False
    # Proxies in front of the api, as a JSON list of networks: only their X-Forwarded-For is believed, and only they may
    # open more connections than one address is allowed.
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    stream_host: str = "127.0.0.1"
    stream_port: int = 8443
    paper_host: str = "127.0.0.1"
    paper_port: int = 8090
    # The secret of the paper broker's operator routes, the same for api and paper. Empty: nobody may use them.
    paper_secret: SecretStr = SecretStr("")
    # What accounts of the paper broker may do that is refused by default: sell what they do not hold, use prices
    # between ticks, trade symbols that are not listed.
    paper_shorting: bool = False
    paper_any_tick: bool = False
    paper_any_symbol: bool = False
    # Seeded faults of the paper broker; see its documentation. Empty: none.
    paper_faults: str = ""
    # How its prices move: walk:seed=7,step_ms=500,bps=5 or csv:<path>. Empty: they do not change.
    paper_prices: str = ""
    # Other addresses of brokers, by broker and environment: a JSON object of objects.
    broker_addresses: dict[str, dict[Environment, str]] = Field(default_factory=dict, repr=False)
    # Trusted issuers of access tokens: a JSON list; see the documentation of identity.
    issuers: tuple[Issuer, ...] = ()
    # Rate limits: reads per principal, commands per account, key validations per address.
    limit_reads_per_second: PositiveInt = 100
    limit_reads_per_minute: PositiveInt = 3000
    limit_submits_per_second: PositiveInt = 200
    limit_cancels_per_second: PositiveInt = 1000
    limit_validations_per_second: PositiveInt = 20
    # What one organization may use at most; domain/access/caps.py describes each.
    cap_streams: PositiveInt = CAPS["streams"].limit
    cap_events_per_second: PositiveInt = CAPS["events_per_second"].limit
    cap_reads_at_once: PositiveInt = CAPS["reads_at_once"].limit
    cap_backtests_at_once: PositiveInt = CAPS["backtests_at_once"].limit
    cap_api_keys: PositiveInt = CAPS["api_keys"].limit
    cap_accounts: PositiveInt = CAPS["accounts"].limit
    cap_webhooks: PositiveInt = CAPS["webhooks"].limit
    # The provider of users and organizations. Its API key may be absent: then its API is not used.
    identity_provider: str = "workos"
    workos_api_key: SecretStr = SecretStr("")
    workos_client_id: str = ""
    workos_base_url: str = "https://api.workos.com"
    # How often a row of a queue is tried before it fails, and how long a completed row is kept.
    outbox_attempts_max: PositiveInt = 10
    outbox_keep_hours: PositiveFloat = 24
    # How long events are kept; a stream that resumes later than that receives a gap message.
    event_retention_days: int = Field(default=30, ge=7)
    # Whether organizations pay for entitlements: then a new one has none until an operator grants them.
    sells_plans: bool = False
    # The key that encrypts broker credentials: file:<path> or aws-kms:<arn>. Empty: none can be stored.
    vault_key: str = ""
    # Another address of AWS KMS. Empty: its public address.
    vault_aws_endpoint: str = ""
    # The secrets of webhooks are derived from it; must be the same on every replica. Empty: no webhooks.
    webhook_key: SecretStr = SecretStr("")
    # Hosts at private addresses to which webhooks may be sent, also over http: a JSON list of host:port, or ["*"].
    webhook_private_targets: frozenset[str] = frozenset()
    # How long deliveries of an account's events may fail before they are paused until somebody resumes them.
    webhook_park_hours: PositiveFloat = 24
    # The console: where it listens, and its address in browsers: https://HOST.
    console_host: str = "127.0.0.1"
    console_port: int = 8070
    console_url: str = ""
    # Where it calls the api. Empty: http at api_host and api_port.
    console_api_url: str = ""
    # The OpenID provider where users of the console sign in, and the console's client there. The secret may be empty
    # for a public client.
    console_issuer: str = ""
    console_client_id: str = ""
    console_client_secret: SecretStr = SecretStr("")
    # The audience that the api expects in access tokens, for providers that issue tokens for a named one.
    console_audience: str = ""
    # Encrypts the users' tokens in the database; must be the same on every replica of the console.
    console_key: SecretStr = SecretStr("")
    log_level: str = "INFO"
    # The address of each process's metrics and readiness; port 0: none.
    operations_host: str = "127.0.0.1"
    operations_port: int = 0
    # http(s)://… of an OpenTelemetry collector. Empty: no tracing.
    otlp_url: str = Field(default="", repr=False)
    # http://… of the NATS monitoring port, where the doctor checks whether NATS syncs every write.
    nats_monitor_url: str = ""
    # A name that is stable over restarts: the next process of this name takes over its slots at once. Empty: a new
    # name.
    executor_name: str = ""
    # For tests: the point at which this process kills itself.
    crash_at: str = ""

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - one per setting
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors(include_input=False)]
            causes = "; ".join(f"{place}: {message}" for place, message in wrong)
            raise OperatorError(f"The settings (OPENBELL_…) cannot be used: {causes}.") from None
        except SettingsError as error:
            raise OperatorError(f"The settings (OPENBELL_…) cannot be used: {error}; it must be JSON.") from None

    @field_validator("webhook_key")
    @classmethod
    def _check_length(cls, key: SecretStr) -> SecretStr:
        if 0 < len(key.get_secret_value()) < KEY_LENGTH_MIN:
            message = f"it needs {KEY_LENGTH_MIN} characters or more; `openssl rand -hex 32` makes a good one"
            raise PydanticCustomError("short_key", message)
        return key

    @field_validator("webhook_private_targets")
    @classmethod
    def _check_targets(cls, targets: frozenset[str]) -> frozenset[str]:
        for target in targets - {ANY_TARGET}:
            host, _, port = target.rpartition(":")
            if not (host and port.isdecimal() and target == target.lower()):
                raise PydanticCustomError("target", "each must be host:port in small letters, or * for all")
        return targets

    def require(self, name: str) -> str:
        """Raises OperatorError if the setting is empty."""
        value = getattr(self, name)
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        if not text:
            raise OperatorError(f"Set OPENBELL_{name.upper()} in the environment: this process needs it.")
        return text

    @property
    def caps(self) -> Mapping[str, Cap]:
        return caps_with({name: getattr(self, f"cap_{name}") for name in CAPS})

    def cursor_key(self) -> bytes:
        return self.strong_secret("cursor_secret")

    def strong_secret(self, name: str) -> bytes:
        """Raises OperatorError if the secret is empty, or weak enough to be guessed."""
        secret = self.require(name)
        if is_guessable(secret):
            raise OperatorError(
                f"OPENBELL_{name.upper()} can be guessed: it needs {KEY_LENGTH_MIN} characters or more, of which"
                f" {SECRET_CHARACTERS_MIN} or more differ. Set it to the output of `openssl rand -hex 32`, the same on"
                " every replica."
            )
        return secret.encode()

    def console_origin(self) -> str:
        """The console's address as browsers see it; raises OperatorError unless its cookies are safe there."""
        url = self.require("console_url")
        parts = urlsplit(url)
        if not is_safe_address(url) or parts.path not in ("", "/") or parts.query:
            raise OperatorError(
                "OPENBELL_CONSOLE_URL must be https://HOST without a path: browsers send its cookies there only."
            )
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def paper_url(self) -> str:
        return f"http://{self.paper_host}:{self.paper_port}"
