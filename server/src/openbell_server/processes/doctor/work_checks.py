"""The work itself: whether executors live, and whether something waits that only a person can settle."""

from typing import Final

from openbell_server.domain.identifiers import SLOTS
from openbell_server.domain.outbox_health import Verdict, judge
from openbell_server.processes.doctor.findings import PLATFORM, Check, Patient, Said, fine, problem, warning


async def _executors(patient: Patient) -> Said:
    living, held = await patient.database.executors()
    if not living:
        return problem(
            "No executor lives: commands are accepted, and none reaches a broker.",
            "Start `openbell-server executor`, and see its log if it runs.",
        )
    if held < SLOTS:
        return warning(
            f"{living} executor(s) hold {held} of {SLOTS} slots: some accounts wait.",
            "Look again in five seconds; if it stays so, see the logs of the executors.",
        )
    return fine(f"{living} executor(s) hold all {SLOTS} slots.")


async def _unknown(patient: Patient) -> Said:
    count, oldest, flagged = await patient.database.unknown_actions()
    if not count:
        return fine("No action is UNKNOWN.")
    said = f"{count} action(s) are UNKNOWN, the oldest for {oldest:.0f} s"
    if flagged:
        return warning(
            f"{said}; {flagged} of them did not settle by themselves.",
            "See `openbell-server actions list --unknown` and whether their broker answers look-ups; what only its"
            " books can tell, settle with `openbell-server actions settle`.",
        )
    return fine(f"{said}: their broker is being asked.")


async def _halts(patient: Patient) -> Said:
    count = await patient.database.halted_accounts()
    if not count:
        return fine("No account has stopped by itself.")
    return problem(
        f"{count} account(s) stopped by themselves: their broker has more orders under our ids than were sent.",
        "See `openbell-server accounts list --halted`, compare with the broker, then `accounts resume`.",
    )


async def _switches(patient: Patient) -> Said:
    counts = await patient.database.halts_in_force()
    if not counts:
        return fine("No halt is in force.")
    said = ", ".join(f"{count} at the scope {scope}" for scope, count in sorted(counts.items()))
    return warning(
        f"Halts are in force: {said}. What they stop is refused or skipped, as somebody wants it.",
        "See `openbell-server halt status` for who set them and why, and `openbell-server resume`.",
    )


async def _webhooks(patient: Patient) -> Said:
    parked = await patient.database.parked_lanes()
    if not parked:
        return fine("No webhook has failed for too long.")
    return warning(
        f"Events of {parked} account(s) are no longer sent to a webhook: its target failed for too long. None is lost.",
        "Tell its owner: once the target answers again, `openbell webhooks resume` sends all that was kept.",
    )


async def _queues(patient: Patient) -> Said:
    judged = {queue.queue: judge(queue) for queue in await patient.database.queues()}
    bad = [queue for queue, (verdict, _) in judged.items() if verdict in {Verdict.FAILING, Verdict.STUCK}]
    if bad:
        said = ", ".join(f"that of {queue} is {judged[queue][0]}" for queue in bad)
        return problem(f"A queue is not healthy: {said}.", judged[bad[0]][1])
    slow = [queue for queue, (verdict, _) in judged.items() if verdict is Verdict.SLOW]
    if slow:
        return warning(f"The queue of {slow[0]} is slow.", judged[slow[0]][1])
    return fine("No row of a queue has failed, and none waits for long.")


CHECKS: Final = (
    Check("work", "queues", _queues, PLATFORM),
    Check("work", "executors", _executors, PLATFORM),
    Check("work", "unknown_actions", _unknown, PLATFORM),
    Check("work", "halted_accounts", _halts, PLATFORM),
    Check("work", "halts_in_force", _switches, PLATFORM),
    Check("work", "webhooks", _webhooks, PLATFORM),
)
