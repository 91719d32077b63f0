import pytest

from benchmarks.page import written
from tests.benchmarks.commands import run


@pytest.mark.parametrize("module", ["bench_cache", "bench_drafts"])
@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [(("--smoke", "--write"), 2, "not allowed with"), (("--smoke", "--wait", "0"), 1, "nothing.gguf")],
)
def test_what_can_not_be_measured_is_refused(module: str, arguments: tuple[str, ...], code: int, reason: str) -> None:
    ended = run(module, "--model", "nothing.gguf", *arguments)

    assert ended.returncode == code
    assert reason in ended.stderr


def test_a_page_without_a_mark_is_refused() -> None:
    with pytest.raises(ValueError, match="<!-- hits:begin -->"):
        written("<!-- room:begin -->\n<!-- room:end -->", {"room": "", "hits": ""})
