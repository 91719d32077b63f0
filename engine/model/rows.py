"""Which row counts of a matrix product give a row the same bits, found by trying.

A BLAS chooses its kernel and its split over threads by the shape of the product, and kernels sum in
different orders. So a row of a product depends on how many rows it is computed with, unless the
counts are chosen. Which counts agree is a matter of the CPU, the library, the number of threads and
the other dimensions: it is measured here, at load, on the thread that serves.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

Trial = Callable[[int], Tensor | None]  # what a fixed set of rows gives among that many; None: it depends on the place

PATTERNS = 7  # different rows in a trial; coprime to every tile size, so that each row meets each place of a tile
COUNTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)  # rows of one product; longer batches are cut
MAX_QUANTUM = 64
CALL_ROWS = 16  # what one more product costs, in rows: it reads the weights again; measured at 576 x 1536


@dataclass(frozen=True, slots=True)
class RowCounts:
    """The row counts of one product that agree, ascending; all are multiples of the first."""

    counts: tuple[int, ...]
    _splits: dict[int, tuple[int, ...]] = field(default_factory=dict, compare=False, repr=False)

    @property
    def quantum(self) -> int:
        """The smallest count."""
        return self.counts[0]

    def split(self, num_rows: int) -> tuple[int, ...]:
        """Agreeing counts that hold `num_rows` rows together: no fewer, and less than a quantum more."""
        if num_rows not in self._splits:
            self._splits[num_rows] = self._cut(num_rows)
        return self._splits[num_rows]

    def cost(self, num_rows: int) -> int:
        """What `num_rows` rows cost, in rows."""
        return sum(count + CALL_ROWS for count in self.split(num_rows))

    def _cut(self, num_rows: int) -> tuple[int, ...]:
        sizes = []
        while num_rows > 0:
            sizes.append(max((count for count in self.counts if count <= num_rows), default=self.quantum))
            num_rows -= sizes[-1]
        return tuple(sizes)


class Trials:
    """What the same few rows give, by the number of rows that they are computed with."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._results: dict[int, Tensor | None] = {}

    def agreeing(self, counts: Sequence[int]) -> RowCounts | None:
        """Those of `counts` that agree with the first; None where the first does not agree with itself."""
        expected = self._result(counts[0])
        if expected is None:
            return None
        results = ((count, self._result(count)) for count in counts)
        return RowCounts(tuple(n for n, result in results if result is not None and torch.equal(result, expected)))

    def most_agreeing(self, counts: Sequence[int]) -> tuple[int, ...]:
        """The largest set among `counts` that agree with each other."""
        sets: list[tuple[Tensor, list[int]]] = []
        for count in counts:
            result = self._result(count)
            if result is None:
                continue
            same = next((members for expected, members in sets if torch.equal(result, expected)), None)
            if same is None:
                sets.append((result, [count]))
            else:
                same.append(count)
        return max((tuple(members) for _, members in sets), key=len, default=())

    def _result(self, count: int) -> Tensor | None:
        if count not in self._results:
            self._results[count] = self._trial(count)
        return self._results[count]


def trial_of(product: Callable[[Tensor], Tensor], patterns: Tensor) -> Trial:
    """A trial of a function from [rows, …] to [rows, …] that should treat each row alone, on `patterns`."""

    def trial(count: int) -> Tensor | None:
        num_calls = -(-(PATTERNS + 1) // count)  # each pattern once, and at least one of them at two places
        which = torch.arange(num_calls * count) % PATTERNS
        outputs = torch.cat([product(rows) for rows in patterns[which].split(count)])
        return outputs[:PATTERNS].clone() if torch.equal(outputs, outputs[which]) else None

    return trial


def agreeing_counts(
    all_trials: Sequence[Trials], weights: Sequence[int], *, loads: Sequence[int], max_rows: int
) -> list[RowCounts]:
    """For each product the counts to use: all with the one quantum that makes `loads` cheapest.

    `weights` are the products' relative costs a row, `loads` the numbers of rows to expect. Empty where
    nothing agrees, not even one row with itself.
    """
    best: list[RowCounts] = []
    best_cost = -1
    for quantum in (count for count in COUNTS if count <= min(MAX_QUANTUM, max_rows)):
        counts = [count for count in COUNTS if count % quantum == 0 and count <= max_rows]
        found = [agreed for trials in all_trials if (agreed := trials.agreeing(counts)) is not None]
        if len(found) < len(all_trials):
            continue
        cost = sum(w * rows.cost(load) for w, rows in zip(weights, found, strict=True) for load in loads)
        if not best or cost < best_cost:
            best, best_cost = found, cost
    return best
