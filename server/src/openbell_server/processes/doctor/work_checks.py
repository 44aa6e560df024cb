"""Checks the work: executors, queues, UNKNOWN actions, halts and webhooks."""

from typing import Final

from openbell_server.domain.events.outbox_health import QueueVerdict, judge
from openbell_server.domain.identifiers import SLOTS
from openbell_server.processes.doctor.findings import PLATFORM, Check, Result, Target, fine, problem, warning

# The stream's login counts nothing.
_COUNTING: Final = PLATFORM - {"stream"}


async def _executors(target: Target) -> Result:
    living, held = await target.database.executors()
    if not living:
        return problem(
            "No executor is running: commands are accepted, but none reaches a broker.",
            "Start `openbell-server executor`; if it is started, see its log.",
        )
    if held < SLOTS:
        return warning(
            f"{living} executor(s) hold {held} of {SLOTS} slots: some accounts wait.",
            "Run doctor again in five seconds; if nothing changes, see the logs of the executors.",
        )
    return fine(f"{living} executor(s) hold all {SLOTS} slots.")


async def _unknown(target: Target) -> Result:
    count, oldest, flagged = await target.database.unknown_actions()
    if not count:
        return fine("No action is UNKNOWN.")
    text = f"{count} action(s) are UNKNOWN, the oldest for {oldest:.0f} s"
    if flagged:
        return warning(
            f"{text}; {flagged} of them did not settle automatically.",
            "See `openbell-server actions list --unknown` and whether their broker answers look-ups. If only its"
            " records show the outcome, use `openbell-server actions settle`.",
        )
    return fine(f"{text}: they are being looked up at their broker.")


async def _halts(target: Target) -> Result:
    count = await target.database.halted_accounts()
    if not count:
        return fine("No account has stopped automatically.")
    return problem(
        f"{count} account(s) stopped automatically: their broker has more orders under our ids than were sent.",
        "See `openbell-server accounts list --halted`, compare with the broker, then `accounts resume`.",
    )


async def _switches(target: Target) -> Result:
    counts = await target.database.halts_in_force()
    if not counts:
        return fine("No halt is in force.")
    text = ", ".join(f"{count} at the scope {scope}" for scope, count in sorted(counts.items()))
    return warning(
        f"Halts are in force: {text}. Commands under a halt are refused or skipped.",
        "See `openbell-server halt status` for who set them and why, and `openbell-server resume`.",
    )


async def _webhooks(target: Target) -> Result:
    parked = await target.database.parked_queues()
    if not parked:
        return fine("No webhook is parked.")
    return warning(
        f"Events of {parked} account(s) are no longer sent to a webhook: its target failed for too long. None is lost.",
        "Notify its owner: once the target answers again, `openbell webhooks resume` sends all stored events.",
    )


async def _queues(target: Target) -> Result:
    judged = {queue.queue: judge(queue) for queue in await target.database.queues()}
    bad = [queue for queue, (verdict, _) in judged.items() if verdict in {QueueVerdict.FAILING, QueueVerdict.STUCK}]
    if bad:
        text = ", ".join(f"that of {queue} is {judged[queue][0]}" for queue in bad)
        return problem(f"A queue is not healthy: {text}.", judged[bad[0]][1])
    slow = [queue for queue, (verdict, _) in judged.items() if verdict is QueueVerdict.SLOW]
    if slow:
        return warning(f"The queue of {slow[0]} is slow.", judged[slow[0]][1])
    return fine("No row of a queue has failed, and none waits for long.")


CHECKS: Final = (
    Check("work", "queues", _queues, _COUNTING),
    Check("work", "executors", _executors, _COUNTING),
    Check("work", "unknown_actions", _unknown, _COUNTING),
    Check("work", "halted_accounts", _halts, _COUNTING),
    Check("work", "halts_in_force", _switches, _COUNTING),
    Check("work", "webhooks", _webhooks, _COUNTING),
)
