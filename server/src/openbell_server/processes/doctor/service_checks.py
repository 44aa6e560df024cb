"""Checks NATS and Redis: availability, durability, streams and clock."""

from typing import Final

from openbell_server.processes.doctor.database_checks import skew
from openbell_server.processes.doctor.findings import (
    CALLED,
    PLATFORM,
    Check,
    Result,
    Target,
    cannot_tell,
    fine,
    problem,
    warning,
)

OLDEST_NATS: Final = (2, 12)
ANSWER_SECONDS: Final = 2.0


async def _nats(target: Target) -> Result:
    if not target.settings.nats_url:
        return fine("No NATS is configured: processes find work by looking, up to a second later.")
    if trouble := target.troubles.get("nats"):
        return problem(
            f"NATS did not accept the connection ({trouble}): work is found by polling only, which is slower.",
            "Check OPENBELL_NATS_URL and that the server runs.",
        )
    major, minor = target.nats.version
    if (major, minor) < OLDEST_NATS:
        return problem(f"NATS is {major}.{minor}.", "Upgrade nats-server to 2.12 or newer.")
    return fine(f"NATS {major}.{minor} answers.")


async def _jetstream(target: Target) -> Result:
    if not target.settings.nats_url:
        return None
    if await target.nats.has_jetstream():
        return fine("JetStream answers.")
    return problem(
        "NATS answers without JetStream: nothing is published.",
        "Add `jetstream { store_dir: …, sync_interval: always }` to nats.conf and restart it.",
    )


async def _sync(target: Target) -> Result:
    if not target.settings.nats_url:
        return None
    remedy = "Write `sync_interval: always` into the jetstream block of nats.conf and restart NATS."
    url = target.settings.nats_monitor_url
    if not url:
        return cannot_tell(
            "Only the monitoring port of NATS shows whether JetStream syncs every write.",
            "Set OPENBELL_NATS_MONITOR_URL to that port (`http: 127.0.0.1:8222` in nats.conf), then run doctor again.",
        )
    try:
        answer = await target.client.get(f"{url.rstrip('/')}/jsz", params={"config": "true"})
        always = answer.raise_for_status().json()["config"].get("sync_always", False)
    except Exception as error:  # noqa: BLE001 - any error means that this is not a monitoring port
        return cannot_tell(
            f"The monitoring port of NATS did not answer ({type(error).__name__}).",
            "Check OPENBELL_NATS_MONITOR_URL against `http:` in nats.conf.",
        )
    if not always:
        return problem("JetStream does not sync every write: it can lose confirmed messages.", remedy)
    return fine("JetStream syncs every write before it confirms it.")


async def _streams(target: Target) -> Result:
    if not target.settings.nats_url:
        return None
    streams = await target.nats.streams()
    for stream in streams:
        if stream.differences:
            return problem(
                f"The stream {stream.name} differs from our configuration: {'; '.join(stream.differences)}.",
                f"Delete it (`nats stream rm {stream.name}`) after its consumers have read it: processes recreate it.",
            )
    missing = [stream.name for stream in streams if stream.differences is None]
    if missing:
        return warning(
            f"There is no stream {', '.join(missing)} yet.", "Start the processes: they create it when they connect."
        )
    return fine("All streams have our configuration.")


async def _clock(target: Target) -> Result:
    if not target.settings.nats_url:
        return None
    best = min(await target.nats.streams(), key=lambda stream: stream.took_seconds)
    return skew("NATS", best.ahead_seconds, best.took_seconds)


async def _redis(target: Target) -> Result:
    url = target.settings.redis_url.get_secret_value()
    if not url:
        return fine("No Redis is configured: each process counts calls alone.")
    # Slow to import and not always needed.
    from redis.asyncio import Redis
    from redis.exceptions import RedisError

    remedy = "Check OPENBELL_REDIS_URL and that the server runs; until then each process counts alone."
    try:
        client = Redis.from_url(url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS)
    except ValueError:
        return problem("OPENBELL_REDIS_URL is not a Redis address.", "Write it as redis://host:6379.")
    try:
        await client.ping()
    except (RedisError, OSError, TimeoutError) as error:
        return problem(f"Redis did not answer ({type(error).__name__}).", remedy)
    finally:
        await client.aclose()
    return fine("Redis answers: all processes count calls together.")


CHECKS: Final = (
    Check("nats", "reachable", _nats, PLATFORM),
    Check("nats", "jetstream", _jetstream, PLATFORM),
    Check("nats", "sync_always", _sync, PLATFORM),
    Check("nats", "streams", _streams, PLATFORM),
    Check("nats", "clock", _clock, PLATFORM),
    Check("redis", "reachable", _redis, CALLED),
)
