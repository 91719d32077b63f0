"""A trace through the real engine: what it shows of one prompt, of two together, and of one again."""

import json

import pytest

from config.settings import EngineSettings, ModelSettings, Settings
from engine.cache.layout import Layout
from engine.errors import ContextTooLong
from server.steps import GROUPS_LEGEND, STATES_LEGEND, TIMES
from server.trace import TraceOptions, trace
from tests.digest import LAYOUTS
from tests.http.scripted import BLOCK_SIZE, LAYOUT, NUM_BLOCKS, Script, build

SETTINGS = Settings(model=ModelSettings(path="scripted"), engine=EngineSettings(check_laws=True))


def traced(
    *prompts: str, max_tokens: int = 3, repeat: int = 1, as_json: bool = False, layout: Layout = LAYOUT
) -> list[str]:
    lines: list[str] = []
    options = TraceOptions(prompts, max_tokens, repeat=repeat, raw=False, as_json=as_json)
    trace(build(SETTINGS, Script(), layout), options, lines.append)
    return lines


def test_json_shows_every_step_of_the_four_marks() -> None:
    shown = [json.loads(line) for line in traced("hello", as_json=True)]

    assert [one["step"] for one in shown] == [1, 2, 3]
    assert [one["chunk"] for one in shown] == [[0, 5], [5, 6], [6, 7]]
    assert [one["planned"] for one in shown] == [5, 6, 7]
    assert [one["computed"] for one in shown] == [5, 6, 7]
    assert [one["accepted"] for one in shown] == [6, 7, 8]
    assert [one["published"] for one in shown] == [6, 7, 8]
    assert [one["tokens"] for one in shown] == [[ord("f")], [ord("g")], [ord("h")]]
    assert [one["blocks"] for one in shown] == [[[0, 1]]] * 3


def test_the_table_has_a_line_a_step_and_then_what_came_of_it() -> None:
    lines = traced("hello")

    head, first, second, third = lines[2:6]
    assert head.split()[:4] == ["step", "sequence", "chunk", "planned"]
    assert [line.split()[0] for line in (first, second, third)] == ["1", "2", "3"]
    assert "'f'" in first
    assert "▓▓▓▓▓▒··" in first
    assert "█████▓▒·" in second
    assert "a: 5 prompt tokens, 0 of them found in the cache, 3 chosen, ended by length: 'fgh'" in lines


def test_a_repeated_prompt_starts_at_what_the_cache_holds() -> None:
    prompt = "x" * (2 * BLOCK_SIZE + 3)

    lines = traced(prompt, repeat=2)

    first, again = (next(line for line in lines if f" {name}/0 " in line) for name in ("a1", "a2"))
    assert f"[0,{2 * BLOCK_SIZE + 3})" in first
    assert f"[{2 * BLOCK_SIZE},{2 * BLOCK_SIZE + 3})" in again
    assert f"a2: 35 prompt tokens, {2 * BLOCK_SIZE} of them found in the cache, 3 chosen" in "\n".join(lines)


def test_prompts_with_one_beginning_share_its_blocks() -> None:
    beginning = "x" * BLOCK_SIZE

    shown = [json.loads(line) for line in traced(f"{beginning} one", f"{beginning} two", max_tokens=9, as_json=True)]

    last = {one["sequence"]: one["blocks"] for one in shown if one["tokens"]}
    assert last["a/0"][0] == [0, 2] or last["b/0"][0] == [0, 2]
    assert last["a/0"][1][0] != last["b/0"][1][0]
    assert any(f"0{TIMES}2" in line for line in traced(f"{beginning} one", f"{beginning} two", max_tokens=9))


def test_a_prompt_that_does_not_fit_is_refused_with_the_numbers() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        traced("x" * (NUM_BLOCKS * BLOCK_SIZE))

    refusal = caught.value.exceptions[0]
    assert isinstance(refusal, ContextTooLong)
    assert refusal.limit == NUM_BLOCKS * BLOCK_SIZE


def test_blocks_are_told_by_group_with_what_a_window_gave_back_and_the_state_with_its_checkpoints() -> None:
    prompt = "x" * (2 * BLOCK_SIZE + 3)

    lines = traced(prompt, layout=LAYOUTS["all"], repeat=2)
    shown = [json.loads(line) for line in traced(prompt, layout=LAYOUTS["all"], as_json=True)]

    assert lines[2:4] == [GROUPS_LEGEND, STATES_LEGEND]
    assert "| state 0 checkpoint 1 at 32" in next(line for line in lines if " a1/0 " in line)
    assert " | 2 gone " in next(line for line in lines if "[35,36)" in line)
    assert [one["tables"][1]["first"] for one in shown] == [0, 2, 2]
    assert [one["checkpoints"] for one in shown] == [[[32, 1]], [], []]
    assert f"a2: 35 prompt tokens, {2 * BLOCK_SIZE} of them found in the cache, 3 chosen" in "\n".join(lines)
    assert "1 checkpoints kept for the next prompt" in lines[-1]
