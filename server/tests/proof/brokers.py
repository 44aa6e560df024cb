"""Every broker does what every broker must: the scenarios, at each of them, over real sockets."""

import asyncio

from conformance.exactness import exact
from conformance.hostile import hostile
from conformance.run import SCENARIOS, Result, Verdict, run_all, write
from conformance.scripts import differences
from openbell_server.brokers.registry import BROKERS
from proof.figures import Figures

SCRIPTS = {"full": 500, "gate": 4}
PAYLOADS = {"full": 250, "gate": 20}
EXCHANGES = {"full": 1_000, "gate": 20}
ALIKE = ("paper", "alpaca")
TITLES = {
    "crashes": "crashes",
    "hangs": "hangs",
    "unbounded": "unbounded reads",
    "wrong": "conclusions that they do not prove",
    "unusable": "sessions of no use afterwards",
}


def prove(figures: Figures) -> None:
    conformance(figures)
    scripts(figures)
    payloads(figures)
    numbers(figures)


def conformance(figures: Figures) -> None:
    """Each scenario passes at each broker, unless the broker declares that it does not offer what it is about."""
    scenarios = [each for each in SCENARIOS if each.gate or figures.size == "full"]
    results = asyncio.run(run_all(list(BROKERS), scenarios))
    if figures.size == "full":
        write(results)
    figures.exactly("brokers", len({result.broker for result in results}), len(BROKERS))
    figures.shown("scenarios", len(scenarios))
    for broker in BROKERS:
        figures.shown(f"passed at {broker}", _count(results, Verdict.PASSED, broker))
        figures.shown(f"not offered by {broker}", _count(results, Verdict.NOT_OFFERED, broker))
    failed = [result for result in results if result.verdict is Verdict.FAILED]
    figures.exactly("scenarios that failed", len(failed), 0)
    unsaid = [result for result in results if result.verdict is Verdict.NOT_OFFERED and not result.why]
    figures.exactly("scenarios left out for another reason than a declaration", len(unsaid), 0)
    excess = [sentence for result in results for sentence in result.excess_writes]
    figures.exactly("commands written more often than allowed", len(excess), 0)
    for result in failed:
        print(f"{result.broker}: {result.scenario}\n{result.why}{'; '.join(result.excess_writes)}", flush=True)


def scripts(figures: Figures) -> None:
    """What an account asks for and the market does makes the same orders at Alpaca as at the paper broker."""
    count = SCRIPTS[figures.size]
    found = asyncio.run(differences(ALIKE, range(count)))
    figures.exactly(f"random scripts at {' and '.join(ALIKE)}", count, count)
    figures.exactly("scripts that made other orders there", len(found), 0)
    for sentence in found:
        print(sentence, flush=True)


def payloads(figures: Figures) -> None:
    """Whatever a broker answers, its session survives, reads no more than a bound, and concludes nothing unproved."""
    tried = {broker: asyncio.run(hostile(broker, PAYLOADS[figures.size])) for broker in BROKERS}
    figures.shown("fewest hostile payloads at an adapter", min(each.payloads for each in tried.values()))
    for what in ("crashes", "hangs", "unbounded", "wrong", "unusable"):
        lines = [f"{broker}: {line}" for broker, each in tried.items() for line in getattr(each, what)]
        figures.exactly(f"hostile payloads: {TITLES[what]}", len(lines), 0)
        for line in lines:
            print(line[:500], flush=True)


def numbers(figures: Figures) -> None:
    """Decimals arrive as they were written, both ways, to eighteen places."""
    exchanged = [asyncio.run(exact(broker, EXCHANGES[figures.size])) for broker in BROKERS]
    figures.shown("numbers written and read", sum(each.numbers for each in exchanged))
    figures.exactly("numbers changed on the wire", sum(each.changed for each in exchanged), 0)


def _count(results: list[Result], verdict: Verdict, broker: str) -> int:
    return sum(result.verdict is verdict for result in results if result.broker == broker)
