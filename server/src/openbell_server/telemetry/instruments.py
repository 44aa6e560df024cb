"""The registry of a process's metrics, with a description of each for the metrics page."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

# The _created series would double the output, and nothing reads them.
disable_created_metrics()  # type: ignore[no-untyped-call]
# From a millisecond to longer than any request may take.
SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
Kind = Literal["counter", "gauge", "histogram"]
# Values by label values, in label order; a metric without labels has the one key ().
Values = Mapping[tuple[str, ...], float]


@dataclass(frozen=True, slots=True)
class Described:
    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str


class Instruments:
    """The metrics of one process, in a registry of its own without the library's Python metrics."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.described: list[Described] = []

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """The name must end in _total."""
        self.described.append(Described(name, "counter", labels, meaning))
        return Counter(name, meaning, labels, registry=self._registry)

    def histogram(self, name: str, meaning: str, *labels: str) -> Histogram:
        """A duration; the name must end in _seconds."""
        self.described.append(Described(name, "histogram", labels, meaning))
        return Histogram(name, meaning, labels, buckets=SECONDS, registry=self._registry)

    def read(self, kind: Kind, name: str, meaning: str, labels: tuple[str, ...], source: Callable[[], Values]) -> None:
        """A metric whose values are read from `source` at each scrape."""
        described = Described(name, kind, labels, meaning)
        self.described.append(described)
        self._registry.register(_Read(described, source))

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Read(Collector):
    def __init__(self, described: Described, source: Callable[[], Values]) -> None:
        self._described = described
        self._source = source

    def collect(self) -> Iterator[Metric]:
        described = self._described
        made = CounterMetricFamily if described.kind == "counter" else GaugeMetricFamily
        family = made(described.name, described.meaning, labels=described.labels)
        for labels, value in self._source().items():
            family.add_metric(labels, value)
        yield family
