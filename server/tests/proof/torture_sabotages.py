"""Deliberate faults in the comparer, the journal and the exchange of openbell-torture; its tests must notice each."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from os import environ
from pathlib import Path
from shutil import copytree, ignore_patterns
from subprocess import run
from sys import executable
from typing import Final, NamedTuple

from proof.figures import Figures
from proof.results import ROOT
from proof.sabotages.patched_tree import OPTIONS

SOURCE: Final = ROOT / "torture/src"
TESTS: Final = tuple(
    f"torture/tests/test_{name}.py" for name in ("compare", "faults", "journal", "memory_exchange", "report")
)
WORKERS: Final = 2
_TIMEOUT: Final = 300


class Sabotage(NamedTuple):
    """Old occurs once in a file below torture/src, and new replaces it."""

    file: str
    old: str
    new: str


_COMPARE: Final = "openbell_torture/compare.py"
_JOURNAL: Final = "openbell_torture/journal.py"
_ENGINE: Final = "openbell_torture/faulty_engine.py"
_STANDINGS: Final = "openbell_exchange/standings.py"
_MEMORY: Final = "openbell_exchange/memory.py"
_REPORT: Final = "openbell_torture/report.py"
SABOTAGES: Final = (
    # Faults that do not happen, or that do what their name does not say.
    Sabotage(_ENGINE, "            self._away = _AWAY_REQUESTS + 1\n", "            self._away = 1\n"),
    Sabotage(_ENGINE, "+ 1\n            self._cut_feeds()\n", "+ 1\n"),
    Sabotage(_ENGINE, "        self._unseen[number] -= 1\n", ""),
    Sabotage(_ENGINE, "self._unseen[number] = _UNSEEN_READS", "self._unseen[number] = 1"),
    Sabotage(_ENGINE, "fills=not is_late", "fills=is_late"),
    Sabotage(_ENGINE, "                asyncio.get_running_loop().call_later(_LATE_SECONDS, self._fill, number)\n", ""),
    Sabotage(_ENGINE, "        for number in list(self._unfilled):\n            self._fill(number)\n", ""),
    Sabotage(
        _ENGINE,
        "READ_ERROR, None)\n                raise Broken",
        "READ_ERROR, None)",
    ),
    # Doubled orders that are hidden, or seen where there are none.
    Sabotage(_COMPARE, "if len(kept) > 1:", "if len(kept) > 2:"),
    Sabotage(_COMPARE, "if len(kept) > 1:", "if len(kept) > 0:"),
    Sabotage(
        _COMPARE,
        "order.fills or order.is_working]",
        "order.is_working]",
    ),
    Sabotage(_COMPARE, "order.fills or order.is_working]", "order.fills]"),
    Sabotage(_COMPARE, "order.fills or order.is_working]", "True]"),
    Sabotage(_COMPARE, "not open_group[terms][-1].is_accepted:", "open_group[terms][-1].is_accepted:"),
    Sabotage(
        _COMPARE, "if group is None and terms in open_group and not", "if group is None and terms in open_group or not"
    ),
    Sabotage(_COMPARE, "group = of_id.get(str(name)) if name else None", "group = None"),
    Sabotage(_COMPARE, "        open_group[terms] = group\n", ""),
    Sabotage(_COMPARE, "            of_id[str(name)] = group\n", "            pass\n"),
    Sabotage(_COMPARE, "terms = tuple(str(entry.asked.fields.get(name)) for name in _TERMS)", 'terms = ("same",)'),
    Sabotage(_COMPARE, '_TERMS: Final = ("symbol", "side", "qty",', '_TERMS: Final = ("symbol", "side",'),
    Sabotage(_COMPARE, '_TERMS: Final = ("symbol", "side",', '_TERMS: Final = ("symbol",'),
    Sabotage(_COMPARE, "if not entry.is_submit or not entry.asked.is_whole:", "if not entry.is_submit:"),
    Sabotage(_COMPARE, "        *_doubled(actions),\n", ""),
    Sabotage(_COMPARE, "                at=last.at,\n", "                at=0.0,\n"),
    Sabotage(
        _COMPARE,
        "                ordinals=tuple(entry.ordinal for entry in action.entries),\n            )\n\n\ndef _lost",
        "                ordinals=(),\n            )\n\n\ndef _lost",
    ),
    # Orders of which the bot has no answer.
    Sabotage(_COMPARE, "        *_lost(journal, actions),\n", ""),
    Sabotage(_COMPARE, "if known is None:", "if known is not None:"),
    Sabotage(_COMPARE, "elif known.status in ENDS and known.filled", "elif known.status not in ENDS and known.filled"),
    Sabotage(_COMPARE, 'known.filled != Decimal(shown["filled_qty"]):', 'known.filled > Decimal(shown["filled_qty"]):'),
    Sabotage(_COMPARE, "for index in range(len(order.members)):", "for index in range(1):"),
    Sabotage(_COMPARE, "for index in range(len(order.members)):", "for index in range(len(order.members) - 1):"),
    # Positions without their stop.
    Sabotage(_COMPARE, "        *_unprotected(journal, orders),\n", ""),
    Sabotage(_COMPARE, 'closing = "sell" if held > 0 else "buy"', 'closing = "buy" if held > 0 else "sell"'),
    Sabotage(_COMPARE, "if held and covered < abs(held):", "if held and covered > abs(held):"),
    Sabotage(_COMPARE, "if held and covered < abs(held):", "if covered < abs(held) + 1:"),
    Sabotage(_COMPARE, "            and history.order_type in _STOPS\n", ""),
    Sabotage(_COMPARE, "            and history.side == closing\n", ""),
    Sabotage(_COMPARE, "            if history.symbol == symbol\n            and", "            if"),
    Sabotage(_COMPARE, "            and history.is_working\n", ""),
    Sabotage(
        _COMPARE,
        "history.members[-1].total - history.filled",
        "history.members[-1].total",
    ),
    # What the bot says of itself.
    Sabotage(_COMPARE, "        *_wrong_positions(journal, orders),\n", ""),
    Sabotage(_COMPARE, "if theirs != ours:", "if theirs > ours:"),
    Sabotage(_COMPARE, "sorted({*held, *journal.believed})", "sorted(held)"),
    Sabotage(_COMPARE, "sorted({*held, *journal.believed})", "sorted(journal.believed)"),
    Sabotage(_COMPARE, 'order.filled if order.side == "buy" else -order.filled', "order.filled"),
    Sabotage(_COMPARE, "return sorted(found, key=lambda finding: finding.at)", "return found"),
    # What the bot received.
    Sabotage(_JOURNAL, "        self.streamed(body)\n", ""),
    Sabotage(_JOURNAL, "        of.status = status\n", ""),
    Sabotage(_JOURNAL, "last.status not in ENDS or filled > last.filled:", "filled > last.filled:"),
    Sabotage(_JOURNAL, "last.status not in ENDS or filled > last.filled:", "True:"),
    Sabotage(
        _JOURNAL, "self.status is not None and self.status < 300", "self.status is not None and self.status < 500"
    ),
    Sabotage(
        _JOURNAL, "self.status is not None and self.status < 300", "self.status is not None and self.status < 200"
    ),
    Sabotage(
        _JOURNAL,
        "            for value in body.values():\n                yield from _orders_in(value)\n",
        "            return\n",
    ),
    Sabotage(_JOURNAL, "    elif isinstance(body, list):\n", "    elif isinstance(body, tuple):\n"),
    Sabotage(_JOURNAL, "entry.fault, entry.order_name = fault, order_name", "entry.fault = fault"),
    Sabotage(_JOURNAL, "Entry(len(self.entries) + 1, self.now, asked)", "Entry(1, self.now, asked)"),
    # The exchange and its faults.
    Sabotage(
        _ENGINE,
        "        act()\n        await self._answer(fault)\n",
        "        await self._answer(fault)\n        act()\n",
    ),
    Sabotage(_ENGINE, "str(self._commands[kind])", "str(self._commands.total() % 2)"),
    Sabotage(_ENGINE, "                self.exchange.fill_rest(history.number)\n", "                pass\n"),
    Sabotage(
        _MEMORY,
        '        if client_order_id in account.ids:\n            raise Refusal(DUPLICATE_ID, "an order with',
        '        if False:\n            raise Refusal(DUPLICATE_ID, "an order with',
    ),
    Sabotage(
        _MEMORY,
        "order.fills.append(Fill(update.ordinal,",
        "order.fills[:0] or order.fills.append(Fill(update.ordinal + 1,",
    ),
    Sabotage(_STANDINGS, "else EXACT.subtract(holding.quantity, filled)", "else holding.quantity"),
    # What is written down.
    Sabotage(_REPORT, "for finding in result.findings\n        ],", "for finding in result.findings[1:]\n        ],"),
    Sabotage(_REPORT, "if finding.weakness is weakness]", "if finding.weakness is not weakness]"),
    Sabotage(_REPORT, '    suite.set("failures", str(failures))\n', '    suite.set("failures", "0")\n'),
    Sabotage(_REPORT, "counts[weakness]", "len(counts)"),
)


def prove_sabotages(figures: Figures, folder: Path) -> None:
    with ThreadPoolExecutor(WORKERS) as workers:
        caught = list(workers.map(partial(_is_caught, folder), range(len(SABOTAGES))))
    for sabotage, was_caught in zip(SABOTAGES, caught, strict=True):
        if not was_caught:
            print(f"not caught: {sabotage}", flush=True)
    figures.exactly("sabotages caught", sum(caught), len(SABOTAGES))


def _is_caught(folder: Path, number: int) -> bool:
    """Whether a test fails; not because the code cannot be imported."""
    file, old, new = SABOTAGES[number]
    tree = folder / str(number)
    copytree(SOURCE, tree, ignore=ignore_patterns("__pycache__"))
    path = tree / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file} has {text.count(old)} times {old!r}"
    path.write_text(text.replace(old, new))
    command = [executable, "-m", "pytest", *OPTIONS, "-x", *TESTS]
    done = run(
        command,
        cwd=ROOT,
        env={**environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=_TIMEOUT,
    )
    return done.returncode == 1 and "FAILED " in done.stdout
