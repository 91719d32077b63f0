from engine.cache.layout import Layout, StateArray, StateGroup
from engine.cache.states import StateStorage

GROUPS = (
    StateGroup("Mamba", (0, 3), (StateArray("inputs", (3, 8)), StateArray("state", (2, 4, 4)))),
    StateGroup("short convolution", (1,), (StateArray("inputs", (2, 6)),)),
)


def test_each_layer_has_its_arrays_one_slot_after_the_other() -> None:
    storage = StateStorage(Layout((), GROUPS), num_slots=5)

    shapes = {
        (layer, name): tuple(array.shape) for layer, arrays in storage.arrays.items() for name, array in arrays.items()
    }
    assert shapes == {
        (0, "inputs"): (5, 3, 8),
        (0, "state"): (5, 2, 4, 4),
        (3, "inputs"): (5, 3, 8),
        (3, "state"): (5, 2, 4, 4),
        (1, "inputs"): (5, 2, 6),
    }
    num_bytes = sum(array.nbytes for arrays in storage.arrays.values() for array in arrays.values())
    assert num_bytes == 5 * Layout((), GROUPS).slot_bytes


def test_a_model_without_recurrent_layers_has_none() -> None:
    assert StateStorage(Layout(()), num_slots=0).arrays == {}


def test_poisoned_slots_hold_no_numbers_and_the_others_what_they_did() -> None:
    storage = StateStorage(Layout((), GROUPS), num_slots=5)
    for arrays in storage.arrays.values():
        for array in arrays.values():
            array.fill_(1.0)

    storage.poison([1, 4])

    for arrays in storage.arrays.values():
        for array in arrays.values():
            assert array[[1, 4]].isnan().all()
            assert (array[[0, 2, 3]] == 1.0).all()
