import re
from pathlib import Path

import pytest

from deploy.image import __main__ as image
from deploy.image.__main__ import HERE, MODEL, answers, choose, how
from deploy.image.buildah import Buildah
from deploy.image.docker import Docker
from deploy.image.engine import CACHE, MODELS, PORT, ROOT, Refused
from tests.deploy.image.fakes import CONFINED, FakeContainer, FakeEngine, program
from tests.deploy.image.test_asked import serving

DOCKERFILE = (ROOT / "Dockerfile").read_text()
MADE_OF = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"}


@pytest.mark.parametrize(("there", "chosen"), [({"docker", "podman"}, "docker"), ({"podman"}, "podman")])
def test_an_engine_that_answers_is_taken(there: set[str], chosen: str) -> None:
    assert choose(None, answers=there.__contains__, missing=lambda: "buildah") == Docker(chosen)


def test_buildah_is_taken_where_no_engine_answers() -> None:
    assert isinstance(choose(None, answers=lambda _: False, missing=lambda: None), Buildah)


def test_the_engine_that_is_named_is_taken_whoever_answers() -> None:
    assert choose("podman", answers={"docker"}.__contains__, missing=lambda: "none") == Docker("podman")
    assert isinstance(choose("buildah", answers=lambda _: True, missing=lambda: None), Buildah)


def test_where_nothing_can_build_the_reason_is_told() -> None:
    with pytest.raises(Refused, match="apt-get"):
        choose(None, answers=lambda _: False, missing=lambda: "apt-get install buildah")


def test_an_engine_answers_only_where_its_daemon_does(tmp_path: Path) -> None:
    assert not answers(str(tmp_path / "docker"))
    assert not answers(str(program(tmp_path, "docker", code=1)))
    assert answers(str(program(tmp_path, "podman")))


def test_an_engine_that_knows_one_context_alone_is_none(tmp_path: Path) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\ncase "$*" in *--build-context*) echo unknown flag; exit 125;; esac\n')
    docker.chmod(0o755)

    assert not answers(str(docker))


def test_the_model_is_mounted_or_in_the_image() -> None:
    assert how(with_model=True).arguments == ()
    assert how(with_model=True).models is None
    assert how(with_model=False).arguments == ("serve", f"{MODELS}/{MODEL}")
    assert how(with_model=False).models == HERE


@pytest.mark.parametrize(("ended", "code"), [(0, 0), (143, 1)])
def test_what_holds_is_told_with_the_weights(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], ended: int, code: int
) -> None:
    engine = FakeEngine(FakeContainer({**CONFINED, "du": (0, "2500000\t/", "")}, code=ended))

    with serving() as address:
        monkeypatch.setattr(image, "free_port", lambda: address.port)
        assert image.tell(engine, with_model=True) == code

    said = capsys.readouterr().out
    assert "     2.5 MB  all\n" in said
    assert f"SIGTERM ends it with 0: {ended}, " in said


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], list[str]]]:
    """What is gathered, with no download: packages alone, and extras."""
    found: list[tuple[list[str], list[str]]] = []

    def gather(folder: Path, alone: list[str], extras: list[str]) -> Path:
        found.append((alone, extras))
        return folder

    monkeypatch.setattr(image, "gather", gather)
    return found


@pytest.mark.parametrize(("with_model", "arguments"), [(True, {"MODEL": MODEL}), (False, {})])
def test_the_models_wheel_is_gathered_where_the_image_is_to_hold_it(
    gathered: list[tuple[list[str], list[str]]], with_model: bool, arguments: dict[str, str]
) -> None:
    engine = FakeEngine(FakeContainer())

    image.build(engine, with_model=with_model)

    assert engine.built == [(image.FOLDER, arguments)]
    ((alone, extras),) = gathered
    assert bool(alone) is with_model
    assert extras == []


def test_extras_and_another_base_reach_the_build(gathered: list[tuple[list[str], list[str]]]) -> None:
    engine = FakeEngine(FakeContainer())

    image.build(engine, with_model=False, extras="otel,dev", base="python:3.11")

    assert engine.built[0][1] == {"EXTRAS": "otel,dev", "BASE": "python:3.11"}
    assert gathered == [([], ["otel", "dev"])]


def test_the_dockerfile_copies_only_what_the_context_holds() -> None:
    lines = DOCKERFILE.replace("\\\n", "").splitlines()
    copied = [name for line in lines if re.match("COPY (?!--)", line) for name in line.split()[1:-1]]

    assert all(MADE_OF & {name, name.partition("/")[0]} for name in copied if name != ".")
    assert all((ROOT / name).exists() for name in MADE_OF)


def test_the_image_has_the_volumes_and_the_port_that_it_is_asked_for() -> None:
    assert f'VOLUME ["{MODELS}", "{CACHE}"]' in DOCKERFILE
    assert f"EXPOSE {PORT}" in DOCKERFILE
    assert 'ENTRYPOINT ["tidemark"]' in DOCKERFILE, "exec form: signals reach the server"
    assert re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE), "numbers, which Kubernetes can tell from root"


def test_what_is_missing_ends_the_program_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def nothing(_: str | None) -> Docker:
        raise Refused("no engine")

    monkeypatch.setattr(image, "choose", nothing)
    monkeypatch.setattr("sys.argv", ["image"])

    assert image.main() == 1
    assert capsys.readouterr().err == "make image: no engine\n"


def test_ctrl_c_ends_the_program_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: str | None) -> Docker:
        raise KeyboardInterrupt

    monkeypatch.setattr(image, "choose", interrupted)
    monkeypatch.setattr("sys.argv", ["image"])

    assert image.main() == 130
    assert capsys.readouterr().err.startswith("make image: ended by Ctrl-C")
