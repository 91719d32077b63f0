"""A model behind each of our forward passes over a poisoned cache, fed part by part."""

from collections.abc import Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor
from transformers import PreTrainedConfig, PreTrainedModel

from engine.cache.lanes import LaneStorage
from engine.cache.memory import UnitMemory
from engine.cache.reading import read_layout
from engine.cache.states import StateStorage
from engine.cache.storage import KVStorage
from engine.model.angles import Angles, find_rotary, make_angles
from engine.model.encoding import Encoded
from engine.model.forward import Forward
from engine.model.kernels.choice import Kernels
from engine.model.kernels.library import library
from engine.model.kernels.native import Library
from engine.model.module_weights import ModuleWeights
from engine.model.native_forward import NativeForward
from engine.model.packed_forward import PackedForward
from engine.model.precision import Precision, encode_as
from engine.model.recognise import recognise
from engine.model.structure import RotaryData
from engine.step import Chunk, Plan, Score, StateUse, Table, Ticket

Part = tuple[int, Sequence[int], Sequence[int]]  # start, tokens, blocks: numbers of sets of units, one for each table
CONTEXT = 512  # positions that native forward passes have angles for


class AnyForward(Protocol):
    """What is run here, whichever of them it is."""

    @property
    def storage(self) -> UnitMemory: ...

    def run(self, plan: Plan) -> Tensor: ...


def the_library() -> Library:
    """The native library, which every machine that runs these tests must have."""
    loaded = library()
    assert loaded is not None, "the native kernels were not built, or this CPU has no AVX2"
    return loaded


def every_kernels() -> list[Kernels]:
    """The library at each level that this CPU has."""
    return [Kernels(the_library(), level) for level in the_library().levels]


def make_forward(
    model: PreTrainedModel, *, num_blocks: int = 64, block_size: int = 8, max_rows: int = 256, num_threads: int = 1
) -> Forward:
    """Put our attention and linears into the model, over a cache that is all NaN."""
    layout = read_layout(model.config, str(model.dtype).removeprefix("torch."), in_lanes=False)
    storage = KVStorage(
        layout, num_units=num_blocks * layout.num_tables, block_size=block_size, device=torch.device("cpu")
    )
    storage.poison(range(storage.num_units))
    states = make_states(model.config, num_blocks=num_blocks)
    with torch.inference_mode():
        return Forward(model, storage, states, max_rows=max_rows, num_threads=num_threads)


def make_native(
    model: PreTrainedModel,
    kernels: Kernels,
    *,
    weights: Precision = "float32",
    cache: str = "float32",
    num_blocks: int = 64,
    block_size: int = 16,
    max_rows: int = 256,
    num_threads: int = 1,
) -> NativeForward:
    """Compile the straight-line decoder of the model, over a cache that is all NaN."""
    structure = recognise(model.config, frozenset(name for name, _ in model.named_parameters()))
    assert structure is not None, f"{model.config.model_type} is not described"
    with torch.inference_mode():
        return NativeForward(
            structure,
            ModuleWeights(model),
            make_lanes(model.config, cache, num_blocks=num_blocks, block_size=block_size),
            kernels=kernels,
            max_rows=max_rows,
            num_threads=num_threads,
            angles=lambda data: _angles(model, data),
            reencode=lambda matrix: encode_as(matrix, weights),
        )


def make_packed(
    model: PreTrainedModel,
    kernels: Kernels,
    *,
    weights: Precision = "float32",
    cache: str = "float32",
    num_blocks: int = 64,
    block_size: int = 16,
    max_rows: int = 256,
    num_threads: int = 1,
) -> PackedForward:
    """Put the native kernels into the model, over a cache that is all NaN."""

    def reencode(matrix: Encoded) -> Encoded:
        return encode_as(matrix, weights)

    lanes = make_lanes(model.config, cache, num_blocks=num_blocks, block_size=block_size)
    states = make_states(model.config, num_blocks=num_blocks)
    with torch.inference_mode():
        return PackedForward(
            model, lanes, states, kernels=kernels, max_rows=max_rows, num_threads=num_threads, reencode=reencode
        )


def make_lanes(config: PreTrainedConfig, dtype: str, *, num_blocks: int, block_size: int) -> LaneStorage:
    """A cache for native kernels that is all NaN."""
    layout = read_layout(config, dtype, in_lanes=True)
    storage = LaneStorage(layout, num_units=num_blocks * layout.num_tables, block_size=block_size)
    storage.poison(range(storage.num_units))
    return storage


def make_states(config: PreTrainedConfig, *, num_blocks: int) -> StateStorage:
    """Two slots for each block, all NaN: of the sequence that begins with it, and of a checkpoint behind it."""
    states = StateStorage(read_layout(config, "float32", in_lanes=False), num_slots=2 * num_blocks)
    states.poison(range(states.num_slots))
    return states


def slots_of(blocks: Iterable[int]) -> list[int]:
    """Those two of each block."""
    return [slot for block in blocks for slot in (2 * block, 2 * block + 1)]


def states_of(storage: UnitMemory, blocks: Sequence[int], *, start: int, stop: int) -> StateUse | None:
    """From the checkpoint at a block's border, or else from the sequence's slot; checkpoints at all borders."""
    if not storage.layout.states:
        return None
    size = storage.block_size
    live, behind = 2 * blocks[0], {(number + 1) * size: 2 * block + 1 for number, block in enumerate(blocks)}
    checkpoints = tuple((border, slot) for border, slot in behind.items() if start < border <= stop)
    return StateUse(behind.get(start, live) if start else None, live, checkpoints)


def units_of(storage: UnitMemory, blocks: Iterable[int]) -> list[tuple[int, ...]]:
    """The units of `blocks`, for each block table of the layout."""
    num_tables = storage.layout.num_tables
    return [tuple(block * num_tables + number for block in blocks) for number in range(num_tables)]


def tables_of(storage: UnitMemory, blocks: Sequence[int], *, start: int = 0) -> tuple[Table, ...]:
    """The block tables of a sequence, without the blocks that no position from `start` on sees."""
    firsts = [group.first_seen(start) // storage.block_size for group in storage.layout.table_groups]
    return tuple(Table(units[first:], first) for first, units in zip(firsts, units_of(storage, blocks), strict=True))


def _angles(model: PreTrainedModel, data: RotaryData) -> Angles:
    rotary = find_rotary(model)
    assert rotary is not None, "a model that turns its heads has one module that says by how much"
    return make_angles(rotary, model.config, data, context_length=CONTEXT)


def run(forward: AnyForward, *parts: Part) -> list[Tensor]:
    """The logits [tokens, vocabulary] of each part, all in one batch."""
    chunks = []
    for start, tokens, blocks in parts:
        tables = tables_of(forward.storage, blocks, start=start)
        every = Score(start, (0,) * len(tokens), 0)  # asks for a row of logits at each position
        states = states_of(forward.storage, blocks, start=start, stop=start + len(tokens))
        chunks.append(Chunk(Ticket("s", 0, 1, start, tables, states), tuple(tokens), score=every))
    with torch.inference_mode():
        logits = forward.run(Plan(1, tuple(chunks))).clone()
    return list(logits.split([len(tokens) for _, tokens, _ in parts]))
