"""Every setting, typed, read from the environment as OPENBELL_<NAME>; only processes and the command line read it."""

from typing import Any

from pydantic import Field, PositiveFloat, PositiveInt, SecretStr, ValidationError, field_validator
from pydantic_core import PydanticCustomError
from pydantic_settings import BaseSettings, SettingsConfigDict, SettingsError

from openbell_server.domain.access_tokens import Issuer
from openbell_server.domain.accounts import Environment
from openbell_server.domain.errors import OperatorError
from openbell_server.domain.webhooks import KEY_LENGTH_MIN


class Settings(BaseSettings):
    """What a process needs to know."""

    model_config = SettingsConfigDict(env_prefix="OPENBELL_", extra="ignore")

    # postgresql://… of the platform's database, and of the paper broker's own ledger.
    database_url: SecretStr = SecretStr("")
    paper_database_url: SecretStr = SecretStr("")
    # It may hold a password, as may other addresses that do not show themselves.
    nats_url: str = Field(default="nats://127.0.0.1:4222", repr=False)
    # redis://… where all api and stream processes count calls together. Empty: each counts for itself.
    redis_url: SecretStr = SecretStr("")
    # Signs page cursors and resume tokens; the same on every replica.
    cursor_secret: SecretStr = SecretStr("")
    api_host: str = "127.0.0.1"
    api_port: int = 8080
    stream_host: str = "127.0.0.1"
    stream_port: int = 8443
    paper_host: str = "127.0.0.1"
    paper_port: int = 8090
    # Seeded misbehaviour of the paper broker; see its documentation. Empty: it behaves.
    paper_faults: str = ""
    # How its prices move: walk:seed=7,step_ms=500,bps=5 or csv:<path>. Empty: they stand still.
    paper_prices: str = ""
    # Where a broker is asked instead of at its own address, by broker and environment: a JSON object of objects.
    broker_addresses: dict[str, dict[Environment, str]] = Field(default_factory=dict, repr=False)
    # Whose access tokens are believed: a JSON list; see the documentation of identity.
    issuers: tuple[Issuer, ...] = ()
    # How often callers may call: reads for a principal, commands for an account, key validations for an address.
    limit_reads_per_second: PositiveInt = 100
    limit_reads_per_minute: PositiveInt = 3000
    limit_submits_per_second: PositiveInt = 200
    limit_cancels_per_second: PositiveInt = 1000
    limit_validations_per_second: PositiveInt = 20
    # Who keeps the users and names the organizations; the API key is for asking it, and may be absent.
    identity_provider: str = "workos"
    workos_api_key: SecretStr = SecretStr("")
    workos_client_id: str = ""
    workos_base_url: str = "https://api.workos.com"
    # How often a row of a queue is handed out before it is given up, and how long it is kept once it is completed.
    outbox_attempts_max: PositiveInt = 10
    outbox_keep_hours: PositiveFloat = 24
    # How long events are kept: whoever follows an account and was away for longer is told of a gap.
    event_retention_days: int = Field(default=30, ge=7)
    # What wraps the keys of sealed broker credentials: file:<path> or aws-kms:<arn>. Empty: none are taken in.
    vault_key: str = ""
    # Where AWS KMS is asked, if not at its public address. Empty: there.
    vault_aws_endpoint: str = ""
    # What the secrets of webhooks are derived from, the same on every replica. Empty: there are no webhooks.
    webhook_key: SecretStr = SecretStr("")
    # Whether webhooks may be sent to private addresses, and over http.
    webhook_private_targets: bool = False
    # For how long deliveries of an account's events may fail before none is tried until somebody asks for it.
    webhook_park_hours: PositiveFloat = 24
    log_level: str = "INFO"
    # Where each process shows its metrics and whether it is ready; 0: nowhere.
    operations_host: str = "127.0.0.1"
    operations_port: int = 0
    # http(s)://… of an OpenTelemetry collector. Empty: nothing is traced.
    otlp_url: str = Field(default="", repr=False)
    # http://… of the monitoring port of NATS, for the doctor, who can see there whether it syncs every write.
    nats_monitor_url: str = ""
    # A name that outlives restarts: a successor of the same name takes its slots over at once. Empty: a new name.
    executor_name: str = ""
    # For tests: the point at which this process kills itself.
    crash_at: str = ""

    def __init__(self, **values: Any) -> None:  # noqa: ANN401 - one per setting
        """Read the environment; what cannot be read is said in a sentence, without the value, which may be a secret."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            wrong = [(".".join(map(str, each["loc"])), each["msg"]) for each in error.errors(include_input=False)]
            said = "; ".join(f"{place}: {message}" for place, message in wrong)
            raise OperatorError(f"The settings (OPENBELL_…) cannot be used: {said}.") from None
        except SettingsError as error:
            raise OperatorError(f"The settings (OPENBELL_…) cannot be used: {error}; it must be JSON.") from None

    @field_validator("webhook_key")
    @classmethod
    def _long_enough(cls, key: SecretStr) -> SecretStr:
        if 0 < len(key.get_secret_value()) < KEY_LENGTH_MIN:
            message = f"it needs {KEY_LENGTH_MIN} characters or more; `openssl rand -hex 32` makes a good one"
            raise PydanticCustomError("short_key", message)
        return key

    def require(self, name: str) -> str:
        """A setting that this process cannot do without."""
        value = getattr(self, name)
        text = value.get_secret_value() if isinstance(value, SecretStr) else str(value)
        if not text:
            raise OperatorError(f"Set OPENBELL_{name.upper()} in the environment: this process needs it.")
        return text

    @property
    def paper_url(self) -> str:
        """Where executors and the api find the paper broker."""
        return f"http://{self.paper_host}:{self.paper_port}"
