"""Row counts of a batch for which pointwise operators treat every row alike.

They run over the whole tensor in vectors, and the elements that a thread has left over take another
path, with other bits. Whether that happens inside a row depends on the rows, their width and the
number of threads.
"""

import functools
from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor
from torch.nn import functional

from engine.errors import ModelUnsupported
from engine.model.batch import Batch
from engine.model.rows import PATTERNS, Trials, trial_of


def _gelu_tanh(inputs: Tensor) -> Tensor:
    return functional.gelu(inputs, approximate="tanh")


def _mean_square(inputs: Tensor) -> Tensor:
    return inputs.pow(2).mean(-1, keepdim=True)


NARROW = 8  # values; so few in a row (a gate's one, a router's few) would ask for many rows to fill whole vectors
# Those with such leftovers in torch 2.13, and the sum of a norm, which goes another way for one lone row.
SENSITIVE: tuple[Callable[[Tensor], Tensor], ...] = (
    torch.sigmoid,
    functional.silu,
    functional.gelu,
    _gelu_tanh,
    functional.softplus,
    _mean_square,
)


class Filling:
    """How many rows of the step that runs are padding, so that products need not be made of them."""

    def __init__(self) -> None:
        self._padded = self._own = 0

    def begin(self, batch: Batch) -> None:
        """Take the step that follows."""
        self._padded = batch.ids.shape[1]
        # As many rows of logits might be taken for the batch's.
        self._own = self._padded if len(batch.logit_rows) == self._padded else batch.num_rows

    def own(self, num_rows: int) -> int:
        """How many of a tensor's rows are worth computing: its padding is not, if it has as many rows as the batch."""
        return self._own if num_rows == self._padded else num_rows


def apart(rows: Tensor) -> Tensor:
    """Rows of few values with room behind each, so that no vector of a pointwise operator spans two of them."""
    return functional.pad(rows, (0, 1))[..., :-1] if rows.shape[-1] < NARROW else rows


def settle_paddings(widths: Iterable[int], *, quantum: int, max_rows: int, dtype: torch.dtype) -> tuple[int, ...]:
    """Ascending multiples of `quantum` that agree for all widths, the last one at least `max_rows`; else empty.

    Rows that are narrow are taken to lie apart.
    """
    counts = tuple(_ladder(quantum, max_rows + max_rows // 4))  # the last ones in case that some do not agree
    generator = torch.Generator().manual_seed(0)
    for width in sorted(set(widths)):
        patterns = (3 * torch.randn(PATTERNS, width, generator=generator)).to(dtype)
        for function in SENSITIVE:
            counts = Trials(trial_of(functools.partial(_of_rows_apart, function), patterns)).most_agreeing(counts)
    enough = [count for count in counts if count >= max_rows]
    return tuple(count for count in counts if count <= enough[0]) if enough else ()


def settle_threads(
    num_threads: int, settle: Callable[[], tuple[int, ...]], *, max_rows: int
) -> tuple[int, tuple[int, ...]]:
    """The most threads with which `settle` finds row counts, and these; torch is left with so many threads.

    Raises ModelUnsupported where there are none with a single thread either.
    """
    for threads in range(num_threads, 0, -1):
        torch.set_num_threads(threads)
        if counts := settle():
            return threads, counts
    raise ModelUnsupported(f"on this CPU no number of rows up to {max_rows} gives a row the same bits")


def _of_rows_apart(function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    return function(apart(rows))


def _ladder(quantum: int, upto: int) -> Iterator[int]:
    """Multiples of `quantum` in steps of an eighth at most, until `upto` is reached."""
    count = quantum
    while count < upto:
        yield count
        count += quantum * max(1, count // (8 * quantum))
    yield count
