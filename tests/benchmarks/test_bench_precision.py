from pathlib import Path

import pytest

from benchmarks.bench_precision import PAGE
from benchmarks.table import put_between
from tests.benchmarks.commands import run
from tests.tiny import make_tiny_model_folder


def test_the_benchmark_of_precision_measures_each_choice(tmp_path: Path) -> None:
    make_tiny_model_folder(tmp_path)

    ended = run("bench_precision", "--model", tmp_path, "--smoke", "--kernels", "avx2", "--roundings")

    assert ended.returncode == 0, ended.stderr
    for name in ("kernels avx2", "weights int4", "cache-dtype int8", "kernels torch --weights bfloat16"):
        assert f"| `--{name}` |" in ended.stdout
    assert "by `--kernels avx2`." in ended.stdout
    assert "| 8-bit integers, a scale for each row |" in ended.stdout
    assert "47 predicted tokens" in ended.stdout
    assert "no figure means anything" in ended.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("--kernels", "avx2,sse"), 2, "no such level: sse"),
        (("--smoke", "--write"), 2, "not allowed with"),
        (("--write",), 1, "the text needs <!-- nothing:begin -->"),
    ],
)
def test_what_can_not_be_measured_is_refused_at_once(arguments: tuple[str, ...], code: int, reason: str) -> None:
    ended = run("bench_precision", "--model", "nothing.gguf", *arguments)

    assert ended.returncode == code
    assert reason in ended.stderr


def test_the_page_has_a_place_for_the_default_model(default_model: Path) -> None:
    assert "new" in put_between(PAGE.read_text(), default_model.stem, "new")
