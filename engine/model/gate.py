"""What a model's structure must show before it is served.

A small random model of the same class and options answers for two sequences: packed together, alone,
in chunks and token by token. All answers must be the same bits, and equal to plain `transformers` but
for rounding. What leaks from one sequence into another, looks at the longest position of the batch,
goes past our attention, or is described wrongly, shows itself here.
"""

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Protocol

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from engine.cache.lanes import LaneStorage
from engine.cache.layout import Layout
from engine.cache.memory import UnitMemory
from engine.cache.mixers import layer_kinds
from engine.cache.reading import read_layout
from engine.cache.states import StateStorage
from engine.cache.storage import KVStorage
from engine.errors import ModelUnsupported
from engine.model.angles import find_rotary, make_angles
from engine.model.forward import Forward
from engine.model.kernels.choice import Kernels
from engine.model.load import quiet_libraries
from engine.model.module_weights import ModuleWeights
from engine.model.native_forward import NativeForward
from engine.model.packed_forward import PackedForward
from engine.model.precision import Precision, encode_as
from engine.model.recognise import recognise
from engine.model.rotary import freeze_rotary
from engine.model.shrink import CONTEXT, shrink_config
from engine.model.structure import Structure
from engine.step import Chunk, Plan, Score, StateUse, Table, Ticket

LENGTHS = (290, 40)  # past the windows, the rotary thresholds and the splits of the context
CHUNKS = (37, 1, 90, 1, 121, 20, 1, 19)  # of the first sequence; one crosses a split
BLOCK_SIZE = 16
TOLERANCE = 1e-4  # of the largest logit, in float32


@dataclass(frozen=True, slots=True)
class Path:
    """What a model may run on: the straight-line decoder or its own modules, and the kernels; None is torch."""

    straight: bool
    kernels: Kernels | None

    def __str__(self) -> str:
        return f"{'straight-line decoder' if self.straight else 'modules of transformers'}, {self.kernels or 'torch'}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The path that passed, what is wrong with the faster ones, and the module that says how heads are turned."""

    path: Path
    faults: tuple[str, ...] = ()  # each with its path, the fastest first
    rotary: type[nn.Module] | None = None


def check_structure(config: PreTrainedConfig, kernels: Kernels | None) -> Verdict:
    """Try a small copy of the model: straight on the kernels, as modules on them, as modules on torch.

    Raises ModelUnsupported, with all reasons, unless one of them passes. What none passes is tried once more: of some
    200 starts, one on a machine that had just been suspended had a reference that no path agreed with.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="gate") as thread:  # settings of torch's threads stay its own
        try:
            return thread.submit(_check, config, kernels).result()
        except ModelUnsupported:
            return thread.submit(_check, config, kernels).result()


class _Forward(Protocol):
    """What both paths have."""

    @property
    def storage(self) -> UnitMemory: ...

    def run(self, plan: Plan) -> Tensor: ...

    def close(self) -> None: ...


@torch.inference_mode()
@quiet_libraries()
def _check(config: PreTrainedConfig, kernels: Kernels | None) -> Verdict:
    with _refusing(config):
        small = shrink_config(config)
        model = _random_model(small)
        expected = [_plain_logits(model, tokens) for tokens in _random_sequences(small.vocab_size)]
    faults: list[str] = []
    for path in _paths(kernels):
        fault = _fault(path, model, small, expected)
        if fault is None:
            return Verdict(path, tuple(faults), find_rotary(model) if path.straight else None)
        faults.append(f"{path}: {fault}")
        with _refusing(config):
            model = _random_model(small)  # since a path of modules changes them
    raise ModelUnsupported(f"{config.model_type} can't be served: {'; '.join(faults)}")


def _paths(kernels: Kernels | None) -> list[Path]:
    """What may run it, the fastest first."""
    straight = [] if kernels is None else [Path(straight=True, kernels=kernels)]
    return straight + [Path(straight=False, kernels=each) for each in dict.fromkeys([kernels, None])]


@contextmanager
def _refusing(config: PreTrainedConfig) -> Iterator[None]:
    try:
        yield
    except ModelUnsupported:
        raise
    except Exception as error:  # whatever a model's code raises on a batch that it does not expect
        raise ModelUnsupported(f"{config.model_type} can't be served: {_reason(config, error)}") from error


def _reason(config: PreTrainedConfig, error: Exception) -> str:
    """What is told of a small copy that failed: a kind of layers that its code has no entry for, by its name."""
    if isinstance(error, KeyError) and (kind := error.args[0]) in layer_kinds(config):
        return f"its layers of type {kind} are not run"
    return f"a small copy failed with {error!r}"


def _fault(path: Path, model: PreTrainedModel, small: PreTrainedConfig, expected: list[Tensor]) -> str | None:
    """What is wrong with a path, or with its kernels on this machine; None is nothing."""
    try:
        if path.straight:
            assert path.kernels is not None, "the straight-line decoder is a program of the native kernels"
            return _straight_fault(model, small, path.kernels, expected)
        return _universal_fault(model, small, path.kernels, expected)
    except ModelUnsupported as error:
        return str(error)
    except Exception as error:  # noqa: BLE001  # whatever it is, another path may do without
        return f"a small copy failed with {error!r}"


def _straight_fault(
    model: PreTrainedModel, small: PreTrainedConfig, kernels: Kernels, expected: list[Tensor]
) -> str | None:
    structure = recognise(small, frozenset(name for name, _ in model.named_parameters()))
    if structure is None:
        return "its structure is not one of those described"
    straight = functools.partial(_straight, model, small, structure, kernels)
    with closing(_Trial(straight, small, read_layout(small, "float32", in_lanes=True))) as exact:
        fault = exact.compare(expected) or exact.find_dependence()
    if fault is not None:
        return fault
    with closing(_Trial(straight, small, read_layout(small, "bfloat16", in_lanes=True))) as short:
        return short.find_dependence()


def _straight(
    model: PreTrainedModel,
    small: PreTrainedConfig,
    structure: Structure,
    kernels: Kernels,
    layout: Layout,
    num_units: int,
) -> NativeForward:
    rotary = find_rotary(model)
    storage = LaneStorage(layout, num_units=num_units, block_size=BLOCK_SIZE)
    storage.poison(range(num_units))
    precision: Precision = "bfloat16" if layout.dtype == "bfloat16" else "float32"
    return NativeForward(
        structure,
        ModuleWeights(model),
        storage,
        kernels=kernels,
        max_rows=sum(LENGTHS),
        num_threads=1,
        angles=lambda data: make_angles(_there(rotary), small, data, context_length=CONTEXT),
        reencode=lambda matrix: encode_as(matrix, precision),
    )


def _there(rotary: type[nn.Module] | None) -> type[nn.Module]:
    assert rotary is not None, "a layer that turns its heads has a module that says by how much"
    return rotary


def _universal_fault(
    model: PreTrainedModel, small: PreTrainedConfig, kernels: Kernels | None, expected: list[Tensor]
) -> str | None:
    layout = read_layout(small, "float32", in_lanes=kernels is not None)
    with closing(_Trial(functools.partial(_universal, model, kernels), small, layout)) as trial:
        fault = trial.compare(expected)
        assert isinstance(trial.forward, Forward | PackedForward)
        for what, calls in (("attention", trial.forward.attention.calls), ("mixers", trial.forward.recurrence.calls)):
            if any(count != len(LENGTHS) for count in calls.values()):
                return f"in {len(LENGTHS)} passes its layers called our {what} {list(calls.values())} times"
        return fault or trial.find_dependence()


def _universal(
    model: PreTrainedModel, kernels: Kernels | None, layout: Layout, num_units: int
) -> Forward | PackedForward:
    rows = sum(LENGTHS)
    states = StateStorage(layout, num_slots=len(LENGTHS))
    states.poison(range(len(LENGTHS)))
    if kernels is not None:
        lanes = LaneStorage(layout, num_units=num_units, block_size=BLOCK_SIZE)
        lanes.poison(range(num_units))
        as_is = functools.partial(encode_as, precision="float32")
        return PackedForward(model, lanes, states, kernels=kernels, max_rows=rows, num_threads=1, reencode=as_is)
    storage = KVStorage(layout, num_units=num_units, block_size=BLOCK_SIZE, device=torch.device("cpu"))
    storage.poison(range(num_units))
    return Forward(model, storage, states, max_rows=rows, num_threads=1)


@dataclass(frozen=True, slots=True)
class _Part:
    """Some tokens of one of the sequences, from position `start` on."""

    which: int
    start: int
    tokens: list[int]


class _Trial:
    """The small model behind one of our forward passes, over a cache that is NaN where nothing was written."""

    def __init__(self, make: Callable[[Layout, int], _Forward], config: PreTrainedConfig, layout: Layout) -> None:
        num_blocks = [-(-length // BLOCK_SIZE) for length in LENGTHS]
        num_units = sum(num_blocks) * layout.num_tables
        units = iter(reversed(range(num_units)))  # no table is in its natural order
        self.tables = [[tuple(islice(units, count)) for _ in range(layout.num_tables)] for count in num_blocks]
        self.layout = layout
        self.sequences = _random_sequences(config.vocab_size)
        self.forward = make(layout, num_units)
        self.close = self.forward.close

    @functools.cached_property
    def alone(self) -> list[Tensor]:
        """The logits of each sequence by itself."""
        return [self.run(_Part(which, 0, tokens)) for which, tokens in enumerate(self.sequences)]

    def compare(self, expected: list[Tensor]) -> str | None:
        """What differs from plain `transformers`."""
        for ours, plain in zip(self.alone, expected, strict=True):
            worst = (ours - plain).abs().max()
            if not worst <= TOLERANCE * plain.abs().max():
                return f"its logits differ from plain attention's by up to {worst:.2g}"
        return None

    def find_dependence(self) -> str | None:
        """What makes an answer depend on more than its own tokens."""
        both = self.run(*(_Part(which, 0, tokens) for which, tokens in enumerate(self.sequences)))
        if not torch.equal(both, torch.cat(self.alone)):
            return "two sequences in one batch change each other's logits"
        ends = list(accumulate(CHUNKS))
        tokens = self.sequences[0]
        chunks = [self.run_on(_Part(0, end - n, tokens[end - n : end])) for n, end in zip(CHUNKS, ends, strict=True)]
        if not torch.equal(torch.cat(chunks), self.alone[0]):
            return "its logits depend on how a prompt is cut into chunks"
        return None

    def run(self, *parts: _Part) -> Tensor:
        """The logits of every token of the parts, in one batch."""
        chunks = []
        for part in parts:
            ticket = Ticket(str(part.which), 0, 1, part.start, self._tables(part), self._states(part))
            score = Score(part.start, (0,) * len(part.tokens), 0)  # which asks for a row of logits at each position
            chunks.append(Chunk(ticket, tuple(part.tokens), score=score))
        return self.forward.run(Plan(1, tuple(chunks))).clone()

    def run_on(self, part: _Part) -> Tensor:
        """The logits of a sequence's next part, once every block is gone that the layout says it does without."""
        pairs = zip(self._tables(part), self.tables[part.which], strict=True)
        self.forward.storage.poison(unit for table, units in pairs for unit in units[: table.first])
        return self.run(part)

    def _tables(self, part: _Part) -> tuple[Table, ...]:
        """The sequence's block tables, without what lies behind the reach of the part's first position."""
        firsts = [group.first_seen(part.start) // BLOCK_SIZE for group in self.layout.table_groups]
        whole = self.tables[part.which]
        return tuple(Table(units[first:], first) for first, units in zip(firsts, whole, strict=True))

    def _states(self, part: _Part) -> StateUse | None:
        if not self.layout.states:
            return None
        return StateUse(source=None if part.start == 0 else part.which, target=part.which)


def _random_model(config: PreTrainedConfig) -> PreTrainedModel:
    """Random in all that is stored: what begins as zeros or ones would hide what it does."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config)
        assert isinstance(model, PreTrainedModel)
        for stored in model.state_dict().values():
            if stored.ndim == 1:
                stored.add_(torch.randn_like(stored), alpha=0.1)
    freeze_rotary(model, CONTEXT)
    model.float().eval()
    return model


def _random_sequences(vocabulary_size: int) -> list[list[int]]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(vocabulary_size, (length,), generator=generator).tolist() for length in LENGTHS]


def _plain_logits(model: PreTrainedModel, tokens: list[int]) -> Tensor:
    model.set_attn_implementation("eager")
    logits: Tensor = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return logits.float()
