from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError

from engine.errors import ModelNotFound
from engine.model import locate
from engine.model.locate import locate_here, locate_model, one_line

RESPONSE = httpx2.Response(404, request=httpx2.Request("GET", "http://hub.invalid"))


class Hub:
    """Stands in for the hub: how it fails, and what an earlier run left in the cache."""

    def __init__(self, *, failure: Exception | None = None, cached: Path | None = None) -> None:
        self.failure = failure
        self.cached = cached

    def model_info(self, _: str, *, timeout: float) -> None:
        assert timeout > 0
        if self.failure is not None:
            raise self.failure

    def snapshot_download(
        self, hub_id: str, *, allow_patterns: list[str] | None = None, local_files_only: bool = False
    ) -> str:
        if not local_files_only:
            return f"/fetched/{hub_id}"
        if self.cached is None:
            raise LocalEntryNotFoundError(f"{hub_id} is not in the cache")
        return str(self.cached)


@pytest.fixture
def use_hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Hub], None]:
    def use(hub: Hub) -> None:
        monkeypatch.setattr(locate, "HfApi", lambda: hub)
        monkeypatch.setattr(locate, "snapshot_download", hub.snapshot_download)

    return use


def find(path: object) -> Path:
    return locate_model(str(path), progress=lambda _: None)


def test_a_folder_with_a_config_is_taken(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()

    assert find(tmp_path) == tmp_path


def test_a_gguf_file_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "model.gguf"
    file.touch()

    assert find(file) == file


def test_a_folder_without_a_config_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match=r"has no config\.json"):
        find(tmp_path)


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.touch()

    with pytest.raises(ModelNotFound, match=r"not a \.gguf file"):
        find(file)


@pytest.mark.parametrize("path", ["/no/such/folder", "./nothing", "missing.gguf", "a/b/c", "what is this"])
def test_what_can_be_no_hub_id_is_looked_for_here_alone(path: str) -> None:
    with pytest.raises(ModelNotFound, match="there is no folder or file"):
        find(path)


def test_a_hub_id_is_fetched_and_progress_says_so(use_hub: Callable[[Hub], None]) -> None:
    use_hub(Hub())
    said: list[str] = []

    assert locate_model("org/model", said.append) == Path("/fetched/org/model")
    assert said == ["looking for org/model on the hub"]


def test_without_a_network_one_line_says_so(use_hub: Callable[[Hub], None]) -> None:
    use_hub(Hub(failure=httpx2.ConnectError("Name or service not known\nsecond line")))

    with pytest.raises(ModelNotFound) as refused:
        find("org/model")

    assert str(refused.value) == (
        "there is no folder or file org/model, and the hub can't be reached to fetch it "
        "(Name or service not known second line)"
    )


def test_without_a_network_what_was_fetched_before_is_taken(use_hub: Callable[[Hub], None], tmp_path: Path) -> None:
    use_hub(Hub(failure=httpx2.ConnectError("no network"), cached=tmp_path))

    assert find("org/model") == tmp_path


def test_a_model_that_the_hub_does_not_have_is_refused(use_hub: Callable[[Hub], None]) -> None:
    use_hub(Hub(failure=RepositoryNotFoundError("404", response=RESPONSE)))

    with pytest.raises(ModelNotFound, match="the hub shows no such model"):
        find("org/nothing")


def test_what_the_hub_answers_is_told(use_hub: Callable[[Hub], None]) -> None:
    use_hub(Hub(failure=HfHubHTTPError("503 Service Unavailable", response=RESPONSE)))

    with pytest.raises(ModelNotFound, match="503 Service Unavailable"):
        find("org/model")


def test_an_error_in_one_line_is_bounded_and_never_empty() -> None:
    assert one_line(ValueError("one:\n  two")) == "one: two"
    assert one_line(ValueError("x" * 1000)) == "x" * 200
    assert one_line(ValueError()) == "ValueError"


def test_what_is_here_is_found_without_asking_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cached = tmp_path / "cached"

    def from_cache(_hub_id: str, *, local_files_only: bool) -> str:
        assert local_files_only
        return str(cached)

    monkeypatch.setattr(locate, "snapshot_download", from_cache)

    assert locate_here(str(tmp_path)) == tmp_path
    assert locate_here("x.gguf") == Path("x.gguf")
    assert locate_here("org/fetched") == cached
