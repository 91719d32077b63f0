"""Families: metrics that share a prefix and the label that names the model."""

from collections.abc import Mapping
from functools import cache
from itertools import accumulate

from engine.stats import BlockCounts, HistogramView, Snapshot
from server.exposition import Family, Kind, Labels, distribution, sample


class Families:
    """Builds one family a call. The mappings go from a label's value to the number shown for it."""

    def __init__(self, *, prefix: str, model_label: str, model: str) -> None:
        self._prefix = prefix
        self._model = (model_label, model)

    def gauge(self, name: str, text: str, value: float) -> Family:
        """One number that may fall."""
        return self._numbers(Kind.GAUGE, name, text, {(): value})

    def gauges(self, name: str, text: str, label: str, values: Mapping[str, float]) -> Family:
        """One number that may fall, for each value of a label."""
        return self._numbers(Kind.GAUGE, name, text, {((label, key),): value for key, value in values.items()})

    def gauge_grid(
        self, name: str, text: str, labels: tuple[str, str], values: Mapping[tuple[str, str], float]
    ) -> Family:
        """One number that may fall, for each pair of two labels' values."""
        return self._numbers(Kind.GAUGE, name, text, _grid(labels, values))

    def counter(self, name: str, text: str, value: float) -> Family:
        """One number that only rises; `_total` is added to the name."""
        return self._numbers(Kind.COUNTER, name, text, {(): value})

    def counters(self, name: str, text: str, label: str, values: Mapping[str, float]) -> Family:
        """One number that only rises, for each value of a label."""
        return self._numbers(Kind.COUNTER, name, text, {((label, key),): value for key, value in values.items()})

    def counter_grid(
        self, name: str, text: str, labels: tuple[str, str], values: Mapping[tuple[str, str], float]
    ) -> Family:
        """One number that only rises, for each pair of two labels' values."""
        return self._numbers(Kind.COUNTER, name, text, _grid(labels, values))

    def histogram(self, name: str, text: str, view: HistogramView) -> Family:
        """One distribution."""
        return self._distributions(name, text, {(): view})

    def histograms(self, name: str, text: str, label: str, views: Mapping[str, HistogramView]) -> Family:
        """One distribution for each value of a label."""
        return self._distributions(name, text, {((label, key),): view for key, view in views.items()})

    def info(self, name: str, text: str, values: Mapping[str, str] | None) -> Family:
        """Facts as labels of a constant 1; nothing but the family's head while they are unknown."""
        return self._numbers(Kind.INFO, name, text, {} if values is None else {tuple(values.items()): 1})

    def _numbers(self, kind: Kind, name: str, text: str, values: Mapping[Labels, float]) -> Family:
        name = self._prefix + name
        lines = [sample(kind.sample_of(name), (self._model, *labels), value) for labels, value in values.items()]
        return Family(name, kind, text, lines)

    def _distributions(self, name: str, text: str, views: Mapping[Labels, HistogramView]) -> Family:
        name = self._prefix + name
        lines = (
            distribution(name, (self._model, *labels), cumulative(view), view.sum) for labels, view in views.items()
        )
        return Family(name, Kind.HISTOGRAM, text, [line for each in lines for line in each])


def _grid(labels: tuple[str, str], values: Mapping[tuple[str, str], float]) -> dict[Labels, float]:
    first, second = labels
    return {((first, one), (second, other)): value for (one, other), value in values.items()}


def usage_ratio(snapshot: Snapshot) -> float:
    """The share of all blocks that some sequence holds; of all slots where a model keeps recurrent states alone."""
    counts = snapshot.blocks if _capacity(snapshot.blocks) else snapshot.slots
    return (counts.allocated + counts.shared) / (_capacity(counts) or 1)


def _capacity(counts: BlockCounts) -> int:
    return counts.free + counts.allocated + counts.shared + counts.cached


def cumulative(view: HistogramView) -> list[tuple[str, int]]:
    """The buckets as Prometheus wants them: each counts everything up to its bound."""
    return list(zip(_named(view.bounds), accumulate(view.counts), strict=True))


@cache
def _named(bounds: tuple[float, ...]) -> tuple[str, ...]:
    return (*(str(float(bound)) for bound in bounds), "+Inf")
