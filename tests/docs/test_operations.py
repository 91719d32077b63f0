import re
from pathlib import Path

import pytest

from config.catalogue import SETTINGS, Setting
from config.flags import SHORT
from server.exchange import Exchange, fields_of
from server.metrics import Metrics, Reading
from server.recorder import Endpoint, RequestMetrics
from server.service import State
from server.tally import Tally

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
    table = OPERATIONS.partition("\n## Metrics\n")[2].partition("\n## ")[0]

    assert set(re.findall(r"`(tidemark_\w+)`", table)) == metric_names()


def test_exactly_the_fields_of_a_request_line_are_explained() -> None:
    table = OPERATIONS.partition("## Logs")[2].partition("A `request` line has")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    exchange = Exchange("r", 0.0, lambda _: None, tally=Tally(Endpoint.COMPLETIONS, prompt_tokens=1))
    scope = {"type": "http", "method": "POST", "path": "/", "state": {}}

    assert named == set(fields_of(scope, exchange, seconds=1.0))
