"""Families: Prometheus families that share a prefix and the label that names the model."""

from collections.abc import Mapping
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
)

from engine.stats import BlockCounts, HistogramView, Snapshot


class Families:
    """Builds one family a call. The mappings go from a label's value to the number shown for it."""

    def __init__(self, *, prefix: str, model_label: str, model: str) -> None:
        self._prefix = prefix
        self._model_label = model_label
        self._model = model

    def gauge(self, name: str, text: str, value: float) -> GaugeMetricFamily:
        """One number that may fall."""
        family = GaugeMetricFamily(self._prefix + name, text, labels=self._labels())
        family.add_metric([self._model], value)
        return family

    def gauges(self, name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
        """One number that may fall, for each value of a label."""
        family = GaugeMetricFamily(self._prefix + name, text, labels=self._labels(label))
        for key, value in values.items():
            family.add_metric([self._model, key], value)
        return family

    def gauge_grid(
        self, name: str, text: str, labels: tuple[str, str], values: Mapping[tuple[str, str], float]
    ) -> GaugeMetricFamily:
        """One number that may fall, for each pair of two labels' values."""
        family = GaugeMetricFamily(self._prefix + name, text, labels=self._labels(*labels))
        for keys, value in values.items():
            family.add_metric([self._model, *keys], value)
        return family

    def counter(self, name: str, text: str, value: float) -> CounterMetricFamily:
        """One number that only rises; `_total` is added to the name."""
        family = CounterMetricFamily(self._prefix + name, text, labels=self._labels())
        family.add_metric([self._model], value)
        return family

    def counters(self, name: str, text: str, label: str, values: Mapping[str, float]) -> CounterMetricFamily:
        """One number that only rises, for each value of a label."""
        family = CounterMetricFamily(self._prefix + name, text, labels=self._labels(label))
        for key, value in values.items():
            family.add_metric([self._model, key], value)
        return family

    def counter_grid(
        self, name: str, text: str, labels: tuple[str, str], values: Mapping[tuple[str, str], float]
    ) -> CounterMetricFamily:
        """One number that only rises, for each pair of two labels' values."""
        family = CounterMetricFamily(self._prefix + name, text, labels=self._labels(*labels))
        for keys, value in values.items():
            family.add_metric([self._model, *keys], value)
        return family

    def histogram(self, name: str, text: str, view: HistogramView) -> HistogramMetricFamily:
        """One distribution."""
        family = HistogramMetricFamily(self._prefix + name, text, labels=self._labels())
        family.add_metric([self._model], buckets=cumulative(view), sum_value=view.sum)
        return family

    def histograms(self, name: str, text: str, label: str, views: Mapping[str, HistogramView]) -> HistogramMetricFamily:
        """One distribution for each value of a label."""
        family = HistogramMetricFamily(self._prefix + name, text, labels=self._labels(label))
        for key, view in views.items():
            family.add_metric([self._model, key], buckets=cumulative(view), sum_value=view.sum)
        return family

    def info(self, name: str, text: str, values: Mapping[str, str] | None) -> InfoMetricFamily:
        """Facts as labels of a constant 1; nothing but the family's head while they are unknown."""
        family = InfoMetricFamily(self._prefix + name, text, labels=self._labels())
        if values is not None:
            family.add_metric([self._model], dict(values))
        return family

    def _labels(self, *more: str) -> list[str]:
        return [self._model_label, *more]


def usage_ratio(snapshot: Snapshot) -> float:
    """The share of all blocks that some sequence holds; of all slots where a model keeps recurrent states alone."""
    counts = snapshot.blocks if _capacity(snapshot.blocks) else snapshot.slots
    return (counts.allocated + counts.shared) / (_capacity(counts) or 1)


def _capacity(counts: BlockCounts) -> int:
    return counts.free + counts.allocated + counts.shared + counts.cached


def cumulative(view: HistogramView) -> list[tuple[str, float]]:
    """The buckets as Prometheus wants them: each counts everything up to its bound."""
    bounds = [*(str(float(bound)) for bound in view.bounds), "+Inf"]
    return [(bound, float(count)) for bound, count in zip(bounds, accumulate(view.counts), strict=True)]
