import json
import os
import sys
from pathlib import Path

import pytest

from deploy.image import buildah
from deploy.image.buildah import PROGRAMS, Buildah, missing, sandboxed
from deploy.image.engine import Refused, Wanted
from tests.deploy.image.fakes import CONFIG, program
from tests.deploy.image.test_engine import TREE

WANTED = Wanted(("serve", "/models/m.gguf"), Path("/m"), 8001)
BWRAP = f"""#!{sys.executable}
import json, os, signal, sys
tells = int(sys.argv[sys.argv.index("--info-fd") + 1])
{{}}
os.close(tells)
signal.pause()
"""
TELLS = "os.write(tells, json.dumps({'child-pid': os.getpid()}).encode())"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that stand in for buildah's and its helpers'."""
    root = tmp_path / "root"
    for left_out in buildah.LEFT_OUT:
        (root / left_out / "folder").mkdir(parents=True)
        (root / left_out / "file").touch()
        (root / left_out / "link").symlink_to("folder")
    for name in (*PROGRAMS, "unshare"):
        program(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    (root / "usr" / "kept").touch()
    return tmp_path


def asked(folder: Path, name: str = "buildah") -> list[str]:
    file = folder / f"{name}.asked"
    return file.read_text().splitlines() if file.exists() else []


def test_what_is_missing_is_told_with_the_packages(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    reason = missing()

    assert reason is not None
    assert reason.endswith("apt-get install bubblewrap buildah debootstrap util-linux")


@pytest.mark.parametrize(("user", "told"), [(0, False), (1000, True)])
def test_buildah_needs_root(here: Path, monkeypatch: pytest.MonkeyPatch, user: int, told: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: user)

    assert (missing() is not None) is told


def test_the_base_is_made_once(here: Path) -> None:
    program(here, "buildah", says="an id")

    Buildah(here).build(here, {})

    assert asked(here, "debootstrap") == []
    assert "--build-arg=BASE=localhost/tidemark-base" in asked(here)[1]
    assert {"--isolation=chroot", "--format=docker"} <= set(asked(here)[1].split())


def test_another_base_is_taken_as_it_is(here: Path) -> None:
    Buildah(here).build(here, {"BASE": "python:3.11"})

    assert asked(here, "debootstrap") == []
    assert "--build-arg=BASE=python:3.11" in asked(here)[0]


def test_the_base_is_debian_without_what_no_program_reads(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = here / "debootstrap"
    made.write_text(f'#!/bin/sh\nfor root in "$@"; do :; done\ncp -r {here}/root "$root"; echo "$@" >> {made}.asked\n')
    tar = program(here, "tar")
    tar.write_text(f'#!/bin/sh\nfind "${{1#*=}}" ! -type d >> {here}/tar.asked\n')
    (here / "unshare").write_text(f'#!/bin/sh\necho "$@" >> {here}/unshare.asked\nshift\nexec "$@"\n')

    Buildah(here).build(here, {})

    assert asked(here, "unshare")[0].startswith("--mount debootstrap --variant=minbase ")
    assert [Path(line).name for line in asked(here, "tar")] == ["kept"]
    assert "--tag=localhost/tidemark-base" in asked(here)[1]


def test_the_image_is_asked_what_it_says_of_itself(here: Path) -> None:
    program(here, "buildah", says=json.dumps({"Docker": {"config": TREE}}))

    assert Buildah(here).config() == CONFIG


def test_the_sandbox_is_read_only_without_capabilities_and_the_server_its_first_process() -> None:
    command = sandboxed(Path("/root"), Path("/c"), CONFIG, WANTED, 9)
    text = " ".join(command)

    assert {"--as-pid-1", "--clearenv", "--no-new-privs", "--bounding-set=-all"} <= set(command)
    assert "--ro-bind /root / " in text
    assert "--info-fd 9 " in text
    assert "--bind /c /cache --ro-bind /m /models --chdir /cache" in text
    assert text.count("--bind") == 1
    assert "--setenv TIDEMARK_SERVER__PORT 8001" in text
    assert text.endswith("--reuid=10001 --regid=10001 -- tidemark serve /models/m.gguf")


def test_without_arguments_the_sandbox_runs_the_images_own_command() -> None:
    command = sandboxed(Path("/root"), Path("/c"), CONFIG, Wanted((), None, 8001), 9)

    assert command[-2:] == ["tidemark", "serve"]
    assert "/models" not in command


def started(here: Path, monkeypatch: pytest.MonkeyPatch, tells: str) -> Buildah:
    program(here, "buildah", says=json.dumps({"Docker": {"config": TREE}}))
    bwrap = here / "bwrap"
    bwrap.write_text(BWRAP.format(tells))
    bwrap.chmod(0o755)
    monkeypatch.setattr(os, "chown", lambda *_: None)
    return Buildah(here)


def test_a_signal_reaches_the_first_process_and_nothing_is_left(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(here, monkeypatch, TELLS).run(WANTED) as sandbox:
        sandbox.inside("id", "-u")
        code = sandbox.stop(10)

    assert code == -15
    assert " --mount --pid setpriv " in asked(here, "nsenter")[0]
    assert asked(here, "nsenter")[0].endswith("--reuid=10001 --regid=10001 -- id -u")
    assert " rm " in asked(here)[-1]


def test_a_sandbox_that_does_not_start_is_told(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(Refused, match="could not start"), started(here, monkeypatch, "sys.exit(1)").run(WANTED):
        raise AssertionError
