"""NATS and Redis: whether they answer, and whether NATS keeps what it took."""

from typing import Final

from openbell_server.processes.doctor.database_checks import skew
from openbell_server.processes.doctor.findings import (
    CALLED,
    PLATFORM,
    Check,
    Patient,
    Said,
    cannot_tell,
    fine,
    problem,
    warning,
)

OLDEST_NATS: Final = (2, 12)
ANSWER_SECONDS: Final = 2.0


async def _nats(patient: Patient) -> Said:
    if trouble := patient.troubles.get("nats"):
        return problem(
            f"NATS did not let us in ({trouble}): work is found by looking only, which is late.",
            "Check OPENBELL_NATS_URL and that the server runs.",
        )
    major, minor = patient.nats.version
    if (major, minor) < OLDEST_NATS:
        return problem(f"NATS is {major}.{minor}.", "Upgrade nats-server to 2.12 or newer.")
    return fine(f"NATS {major}.{minor} answers.")


async def _jetstream(patient: Patient) -> Said:
    if await patient.nats.has_jetstream():
        return fine("JetStream answers.")
    return problem(
        "NATS answers without JetStream: nothing is published.",
        "Add `jetstream { store_dir: …, sync_interval: always }` to nats.conf and restart it.",
    )


async def _sync(patient: Patient) -> Said:
    mend = "Write `sync_interval: always` into the jetstream block of nats.conf and restart NATS."
    url = patient.settings.nats_monitor_url
    if not url:
        return cannot_tell(
            "Whether JetStream syncs every write is shown at its monitoring port only.",
            "Set OPENBELL_NATS_MONITOR_URL to that port (`http: 127.0.0.1:8222` in nats.conf), and look again.",
        )
    try:
        answer = await patient.client.get(f"{url.rstrip('/')}/jsz", params={"config": "true"})
        always = answer.raise_for_status().json()["config"].get("sync_always", False)
    except Exception as error:  # noqa: BLE001 - whatever is there, it is no monitoring port
        return cannot_tell(
            f"The monitoring port of NATS gave no answer ({type(error).__name__}).",
            "Check OPENBELL_NATS_MONITOR_URL against `http:` in nats.conf.",
        )
    if not always:
        return problem("JetStream does not sync every write: it can forget what it confirmed.", mend)
    return fine("JetStream syncs every write before it confirms it.")


async def _streams(patient: Patient) -> Said:
    streams = await patient.nats.streams()
    for stream in streams:
        if stream.differences:
            return problem(
                f"The stream {stream.name} is not as we make it: {'; '.join(stream.differences)}.",
                f"Delete it (`nats stream rm {stream.name}`) when whoever listens has read it: processes make it anew.",
            )
    missing = [stream.name for stream in streams if stream.differences is None]
    if missing:
        return warning(
            f"There is no stream {', '.join(missing)} yet.", "Start the processes: they make it when they connect."
        )
    return fine("Our streams are as we make them.")


async def _clock(patient: Patient) -> Said:
    best = min(await patient.nats.streams(), key=lambda stream: stream.took_seconds)
    return skew("NATS", best.ahead_seconds, best.took_seconds)


async def _redis(patient: Patient) -> Said:
    url = patient.settings.redis_url.get_secret_value()
    if not url:
        return fine("No Redis is named: each process counts calls for itself.")
    # Slow to import, and not everybody has one.
    from redis.asyncio import Redis
    from redis.exceptions import RedisError

    mend = "Check OPENBELL_REDIS_URL and that the server runs; until then each process counts for itself."
    try:
        client = Redis.from_url(url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS)
    except ValueError:
        return problem("OPENBELL_REDIS_URL is no address of a Redis.", "Write it as redis://host:6379.")
    try:
        await client.ping()
    except (RedisError, OSError, TimeoutError) as error:
        return problem(f"Redis did not answer ({type(error).__name__}).", mend)
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
