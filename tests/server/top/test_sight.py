from typing import Any

import pytest

from server.top.sight import Drafts, Held, Info, Measured, Pool, Rejection, read_sight
from server.top.values import NoSight
from tests.server.top.sights import body, rejection, sequence, sight


def test_a_snapshot_is_read_into_values() -> None:
    seen = sight(whole=True, rejections=[rejection()])

    assert seen.info == Info("tiny", "LlamaForCausalLM", 16, 64, 4, ("full attention",), (1,))
    assert (seen.steps, seen.uptime, seen.server) == (40, 3725.0, "ready")
    assert seen.pool == Pool(100, 40, Held("", 30, 10, 20))
    assert seen.drafts == {"lookup": Drafts(4, 20, 10)}
    assert seen.first_token == Measured(2, 0.4)
    assert seen.rejections == (Rejection("chatcmpl-1/0", 41, 25, 8, 3, "lookup"),)
    assert seen.sequences[0].cached_tokens == 16


def test_only_the_first_of_a_connection_has_what_does_not_change() -> None:
    assert sight().info is None


def test_groups_and_slots_are_there_where_the_model_has_them() -> None:
    states = {"allocated": 1, "shared": 2, "cached": 3}
    pool = {
        **body()["pool"],
        "groups": [{"layout": "window", **states}],
        "slots": {"capacity": 10, "free": 4, **states},
    }

    seen = sight(pool=pool).pool

    assert seen.groups == (Held("window", 1, 2, 3),)
    assert seen.slots == Pool(10, 4, Held("", 1, 2, 3))


def test_a_waiting_sequence_has_looked_nothing_up() -> None:
    assert sight(sequences=[sequence(cached_tokens=None)]).sequences[0].cached_tokens is None


def test_a_text_of_the_server_does_not_drive_the_terminal() -> None:
    assert sight(server="re\x1b[2Jady\n").server == "re[2Jady"


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"steps": "many"},
        {"pool": []},
        {"sequences": [{}]},
        {"info": 3},
        {"drafts": 1},
        {"steps": 1e999},
        {"time": 1e999},
        {"units": {}},
        {"units": {"changed": [[-1, "0"]]}},
        {"sequences": [sequence(tables=[{"first": 0, "kept": 0, "units": ["x"]}])]},
    ],
)
def test_what_is_no_snapshot_is_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(NoSight, match="does not tell what `tidemark top` shows"):
        read_sight(body() | wrong if wrong else {})
