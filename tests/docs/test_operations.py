import re
from pathlib import Path

import pytest

from config.catalogue import SETTINGS, Setting
from config.flags import SHORT
from server.metrics import Metrics, Reading
from server.recorder import RequestMetrics
from server.service import State

OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text()


def metric_names() -> set[str]:
    metrics = Metrics(lambda: Reading("m", State.LOADING, None, None, RequestMetrics().view()), vllm_names=False)
    text, _ = metrics.render("")
    return set(re.findall(r"^# TYPE (tidemark_\w+)", text.decode(), re.MULTILINE))


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_every_setting_has_its_row_with_flag_and_default(setting: Setting) -> None:
    default = "" if setting.required else f"`{setting.spell(setting.default)}`"

    assert f"| `{setting.name}` | `{SHORT.get(setting.name, setting.flag)}` | {default} |" in OPERATIONS


def test_no_row_is_about_a_setting_that_is_gone() -> None:
    rows = re.findall(r"^\| `((?:model|cache|engine|server)\.\w+)` \|", OPERATIONS, re.MULTILINE)

    assert set(rows) == set(SETTINGS)


def test_exactly_the_metrics_that_exist_are_explained() -> None:
    table = OPERATIONS.partition("## Metrics")[2].partition("## Watching it")[0]

    assert set(re.findall(r"`(tidemark_\w+)`", table)) == metric_names()
