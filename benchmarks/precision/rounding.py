"""What it would cost to round the rows that enter linear layers, acted out on float32 arithmetic."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from benchmarks.precision.subjects import Room, Subject
from config.settings import ModelSettings
from engine.cache.reading import read_layout
from engine.cache.states import StateStorage
from engine.cache.storage import KVStorage
from engine.model.forward import Forward
from engine.model.linear import RowLinear
from engine.model.load import open_model, read_module
from engine.model.rotary import freeze_rotary
from engine.step import Plan, Table

Rounding = Callable[[Tensor], Tensor]
LARGEST = 127  # of 8 bits with a sign


def to_bfloat16(rows: Tensor) -> Tensor:
    """Each value to the nearest bfloat16."""
    return rows.bfloat16().float()


def to_two_bfloat16(rows: Tensor) -> Tensor:
    """Each value to the sum of two: the nearest one, and the one nearest to what is left."""
    high = to_bfloat16(rows)
    return high + to_bfloat16(rows - high)


def to_int8(rows: Tensor, *, group: int | None) -> Tensor:
    """Values to 8-bit integers with a scale for each `group` of a row, or for all of it."""
    groups = rows.view(*rows.shape[:-1], -1, group or rows.shape[-1])
    scales = groups.abs().amax(-1, keepdim=True) / LARGEST
    scales = scales.where(scales > 0, 1)
    return ((groups / scales).round() * scales).view(rows.shape)


ROUNDINGS: dict[str, Rounding] = {
    "8-bit integers, a scale for each row": lambda rows: to_int8(rows, group=None),
    "8-bit integers, a scale for 32 values": lambda rows: to_int8(rows, group=32),
    "one bfloat16": to_bfloat16,
    "two bfloat16, high and low": to_two_bfloat16,
}


@dataclass(frozen=True, slots=True)
class RoundedForward:
    """Implements `Runs` over a model that several share, in units of its own."""

    shared: "SharedModel"
    rounding: Rounding
    first_unit: int

    def run(self, plan: Plan) -> Tensor:
        """The logits of the plan."""
        self.shared.rounding = self.rounding
        (chunk,) = plan.chunks
        tables = tuple(
            Table(tuple(self.first_unit + unit for unit in table.units), table.first) for table in chunk.ticket.tables
        )
        own = replace(chunk, ticket=replace(chunk.ticket, tables=tables))
        return self.shared.forward.run(Plan(plan.number, (own,)))

    def close(self) -> None:
        """Nothing to end."""


class SharedModel:
    """A model on torch, in float32, whose linear layers see what `rounding` makes of their rows."""

    def __init__(self, path: str, room: Room, *, num_roundings: int) -> None:
        opened = open_model(ModelSettings(path=path), progress=lambda _: None)
        model = read_module(opened, torch.float32)
        freeze_rotary(model, opened.context_length)
        sizes = room.sizes
        layout = read_layout(opened.config, "float32", in_lanes=False)
        storage = KVStorage(
            layout,
            num_units=sizes.num_units * num_roundings,
            block_size=sizes.block_size,
            device=torch.device("cpu"),
        )
        self.rounding: Rounding = to_bfloat16
        states = StateStorage(layout, num_slots=sizes.num_slots)
        self.forward = Forward(model, storage, states, max_rows=sizes.max_positions, num_threads=room.num_threads)
        for module in model.modules():
            if isinstance(module, RowLinear):
                module.register_forward_pre_hook(self._round)

    def _round(self, _: nn.Module, inputs: tuple[Tensor]) -> tuple[Tensor]:
        return (self.rounding(inputs[0]),)


@torch.inference_mode()
def rounded_subjects(path: str, roundings: Mapping[str, Rounding], room: Room) -> dict[str, Subject]:
    """One for each rounding, by its name. Raises ModelError."""
    shared = SharedModel(path, room, num_roundings=len(roundings))
    size = room.sizes.num_units
    return {
        name: Subject(RoundedForward(shared, rounding, number * size), weight_bytes=0, position_bytes=0)
        for number, (name, rounding) in enumerate(roundings.items())
    }
