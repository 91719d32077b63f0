"""A draft model's rows beside the target's: found by the same block table, kept, shared and given back with it."""

from dataclasses import replace

from engine.cache.layout import CacheGroup, Layout, Reach
from engine.errors import ModelUnsupported


def keep_everything(layout: Layout) -> Layout:
    """A draft model's own layout: one group that keeps every position, whatever its layers see of them.

    Raises ModelUnsupported where a recurrent state can't go back to the last token that stood, or layers see chunks.
    """
    if layout.states:
        raise ModelUnsupported(f"a draft model can't have recurrent layers, and this one has {layout.states[0]}")
    if any(group.reach is Reach.CHUNK for group in layout.groups):
        raise ModelUnsupported(f"a draft model can't have chunked attention, and this one has {layout}")
    layers = tuple(sorted(layer for group in layout.groups for layer in group.layers))
    return replace(layout, groups=(CacheGroup(layers, layout.groups[0].rows),))


def with_rows_beside(target: Layout, drafter: Layout) -> Layout:
    """The target's layout with the rows of a draft model, which keeps everything.

    Where no group of the target keeps every position, one without layers does.
    """
    (beside,) = drafter.groups
    keeps = any(group.reach is Reach.FULL for group in target.groups)
    groups = target.groups if keeps else (*target.groups, CacheGroup((), beside.rows))
    return replace(target, groups=groups, beside=beside)
