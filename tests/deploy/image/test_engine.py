import subprocess
import sys
from pathlib import Path

import pytest

from deploy.image.engine import ROOT, Config, Refused, build_flags, call, ended, output
from tests.deploy.image.fakes import CONFIG

TREE = {
    "User": "10001:10001",
    "Entrypoint": ["tidemark"],
    "Cmd": ["serve"],
    "Env": ["PATH=/opt/tidemark/bin:/usr/bin", "TIDEMARK_SERVER__HOST=0.0.0.0"],
    "WorkingDir": "/cache",
    "Volumes": {"/models": {}, "/cache": {}},
    "Healthcheck": {"Test": ["CMD", "python", "-c", "health"]},
}
FAILS = (sys.executable, "-c", "raise SystemExit(3)")


def test_what_an_image_says_of_itself_is_read() -> None:
    assert Config.read(TREE) == CONFIG


def test_an_image_that_says_nothing_is_read_too() -> None:
    assert Config.read({"Entrypoint": None, "Healthcheck": None}) == Config("", (), (), {}, "/", frozenset(), ())


def test_pip_finds_nothing_but_the_wheels_in_a_build() -> None:
    flags = build_flags(Path("/w"), {"MODEL": "m.gguf"})

    assert "--build-context=wheels=/w" in flags
    assert {"--build-arg=PIP_NO_INDEX=1", "--build-arg=MODEL=m.gguf"} <= set(flags)
    assert flags[-1] == str(ROOT)


def test_a_command_that_fails_is_told_by_its_name() -> None:
    for run in (call, output):
        with pytest.raises(Refused, match=rf"{Path(sys.executable).name} ended with 3"):
            run(*FAILS)


def test_a_command_cleans_up_before_ctrl_c_ends_the_build(tmp_path: Path) -> None:
    # Ctrl-C reaches all that a terminal runs: the group. It comes when the command says that it is there.
    # What a script's background started is deaf to it, and so are its children: here they hear it, as in a terminal.
    told = "import os, signal; os.killpg(0, signal.SIGINT)"
    cleans = f"trap 'sleep 0.4; touch {tmp_path}/cleaned; exit 1' INT; {sys.executable} -c '{told}' & wait; sleep 9"
    calls = f"""
import signal
from pathlib import Path
from deploy.image.engine import call
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    call("sh", "-c", {cleans!r})
except KeyboardInterrupt:
    print(Path("{tmp_path}/cleaned").exists())
"""

    done = subprocess.run([sys.executable, "-c", calls], cwd=ROOT, check=True, start_new_session=True, stdout=-1)

    assert done.stdout == b"True\n", "what is killed leaves mounts and half a container"


def test_what_a_command_prints_comes_without_its_last_newline() -> None:
    assert output(sys.executable, "-c", "print('a')") == "a"


def test_a_process_that_runs_on_has_no_exit_code() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert ended(process, 0.01) is None
        process.communicate(b"\n")

    assert ended(process, 0.01) == 0
