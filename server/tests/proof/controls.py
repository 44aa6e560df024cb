"""Controls decide as their table says, refuse with everything one needs to know, and no spelling gets around them."""

from itertools import product

from openbell_server.adapters.postgres.migrate import migrate
from openbell_server.brokers.registry import BROKERS
from openbell_server.devtools.background_services import create_databases
from openbell_server.devtools.local_services import LocalServices
from openbell_server.domain.access.accounts import Environment
from openbell_server.domain.controls.catalogue import CATALOGUE
from openbell_server.domain.controls.findings import CONTROL_INPUT_UNAVAILABLE, Finding, Mode, Verdict
from openbell_server.domain.controls.rules import OnMissing
from openbell_server.telemetry.logs import configure_logging
from proof import control_races, submit_rates, trading_times
from proof.figures import Figures
from support.builders.control_cases import CASES
from support.builders.control_commands import SPELLINGS, Case, judge, repeated, spelled_around
from support.builders.control_oracle import disagreements

ORDERS = {"full": 20_000, "gate": 100}
SEED = 20260306
KINDS_OF_CASE = {"pass", "refuse", "edge"}


def prove(figures: Figures) -> None:
    # A line for every command that is refused would bury the figures.
    configure_logging("proof", "ERROR")
    catalogue(figures)
    decisions(figures)
    arithmetic(figures)
    spellings(figures)
    trading_times.measure(figures)
    with LocalServices() as services:
        create_databases(services.postgres.url())
        database = services.postgres.url("openbell")
        migrate(database)
        # Rates first: races leave rules of the platform, which would weigh on submits that are to have none.
        submit_rates.measure(figures, database)
        control_races.measure(figures, database)


def catalogue(figures: Figures) -> None:
    """Every kind of control is tried where it passes, where it refuses and at its edges."""
    figures.shown("kinds of control", len(CATALOGUE))
    figures.shown("cases", len(CASES))
    figures.shown("cases at an exact edge", sum(case.what == "edge" for case in CASES))
    bare = [code for code in CATALOGUE if not {case.what for case in CASES if case.code == code} >= KINDS_OF_CASE]
    figures.exactly("codes without a case that passes, one that is refused and an edge", len(bare), 0)
    for code in bare:
        print(code, flush=True)


def decisions(figures: Figures) -> None:
    """On live and paper accounts, hard and in shadow, with every word on what is missing."""
    wrong, silent, unrepeatable, judged = [], [], [], 0
    for case, environment, on_missing, mode in product(CASES, Environment, (None, *OnMissing), Mode):
        judged += 1
        lines = judge(case, environment=environment, on_missing=on_missing, mode=mode)
        expected = _expected(case, environment, on_missing, mode)
        if [(line.verdict, line.code) for line in lines] != [(expected, case.found_as or case.code)]:
            wrong.append(f"{case.code} {case.name}: {lines}")
        silent += [line for line in lines if line.verdict is not Verdict.PASSED and not _says_all(line)]
        unrepeatable += [line for line in lines if line.missing is None and repeated(line) is not case.passes]
    figures.shown("decisions", judged)
    figures.exactly("cases decided wrong", len(wrong), 0)
    figures.exactly("refusals without code, scope, limit, observed, version and what would pass", len(silent), 0)
    figures.exactly("lines whose comparison cannot be repeated from them alone", len(unrepeatable), 0)
    for problem in (*wrong, *silent, *unrepeatable):
        print(problem, flush=True)


def _expected(case: Case, environment: Environment, on_missing: OnMissing | None, mode: Mode) -> Verdict:
    passes = case.passes
    if case.what == "missing" and not case.denies_always:
        passes = environment is Environment.PAPER if on_missing is None else on_missing is OnMissing.ALLOW
    if passes:
        return Verdict.PASSED
    return Verdict.REFUSED if mode is Mode.HARD else Verdict.WOULD_REFUSE


def _says_all(line: Finding) -> bool:
    """What is missing has no observed value, and says what is missing instead; its limit may hang on it."""
    if not (line.code and line.scope and line.control_version and line.would_pass):
        return False
    if line.missing is not None:
        return line.reason == CONTROL_INPUT_UNAVAILABLE and bool(line.missing)
    return line.limit is not None and line.observed is not None


def arithmetic(figures: Figures) -> None:
    """Values and collars at and next to their edges, with as many digits as orders may have."""
    compared, wrong = disagreements(ORDERS[figures.size], seed=SEED)
    figures.shown("verdicts at an edge compared with fractions", compared)
    figures.exactly("verdicts that fractions decide otherwise", len(wrong), 0)
    for sentence in wrong[:20]:
        print(sentence, flush=True)


def spellings(figures: Figures) -> None:
    """However a control and a command spell a symbol, it is the same one wherever the broker says so."""
    tried = {name: spelled_around(broker) for name, broker in BROKERS.items()}
    figures.shown("ways to spell a symbol for a control and for a command", sum(count for count, _ in tried.values()))
    # Twenty-five pairs of five spellings, by three controls.
    every = 3 * len(SPELLINGS) ** 2
    figures.at_least("brokers at which all five spellings are one", sum(it[0] == every for it in tried.values()), 2)
    around = [way for _, ways in tried.values() for way in ways]
    figures.exactly("spellings that get around a control", len(around), 0)
    for way in around:
        print(way, flush=True)
