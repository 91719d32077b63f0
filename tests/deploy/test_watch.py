import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from deploy.watch import CONFIGURED, HERE, configure, prometheus
from tests.hangups import hangups

WAITS = "import signal, sys; print('up', flush=True); signal.sigwait([signal.SIGTERM]); sys.exit({code})"
WAITING = "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM]); " + WAITS


def program(folder: Path, script: str) -> Path:
    """What stands in for Prometheus."""
    file = folder / "prometheus"
    file.write_text(f"#!{sys.executable}\n{script}\n")
    file.chmod(0o755)
    return file


def watch(folder: Path, *command: str, beside: str = WAITING.format(code=0)) -> subprocess.Popen[str]:
    """Runs a Python command, and another beside it: that waits for the signal to end, and then says so."""
    arguments = (
        "--target",
        "127.0.0.1:1",
        "--data",
        str(folder / "data"),
        "--program",
        str(program(folder, beside)),
    )
    return subprocess.Popen(
        [sys.executable, str(HERE / "watch.py"), *arguments, sys.executable, "-c", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_prometheus_is_told_where_the_server_is_and_finds_the_same_rules(tmp_path: Path) -> None:
    file = configure(tmp_path, "127.0.0.1:8001")

    config = yaml.safe_load(file.read_text())

    assert config["scrape_configs"][0]["static_configs"] == [{"targets": ["127.0.0.1:8001"]}]
    assert (tmp_path / config["rule_files"][0]).read_text() == (HERE / "prometheus" / "rules.yml").read_text()
    assert (HERE / "prometheus" / "prometheus.yml").read_text().count(f'"{CONFIGURED}"') == 1


def test_prometheus_listens_where_it_is_told() -> None:
    command = prometheus("p", config=Path("c.yml"), data=Path("d"), listen="127.0.0.1:1")

    assert command[0] == "p"
    assert {"--config.file=c.yml", "--storage.tsdb.path=d", "--web.listen-address=127.0.0.1:1"} <= set(command)


def test_when_the_server_ends_prometheus_ends_and_the_servers_exit_code_is_told(tmp_path: Path) -> None:
    with watch(tmp_path, "raise SystemExit(3)") as process:
        process.communicate()

    assert process.returncode == 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.usefixtures("hangups_heard")
def test_a_signal_ends_both_in_their_own_way(tmp_path: Path, number: signal.Signals) -> None:
    with watch(tmp_path, WAITING.format(code=0)) as process:
        assert process.stdout is not None
        started = process.stdout.read(len("up\nup\n"))
        process.send_signal(number)
        process.wait()

    assert started.count("up") == 2
    assert process.returncode == 0


def test_under_nohup_a_terminal_that_closes_ends_nothing(tmp_path: Path) -> None:
    with hangups(signal.SIG_IGN), watch(tmp_path, WAITING.format(code=0)) as process:
        assert process.stdout is not None
        process.stdout.read(len("up\nup\n"))
        ignored = re.search(r"SigIgn:\t(\w+)", Path(f"/proc/{process.pid}/status").read_text())
        process.terminate()
        process.communicate()

    assert ignored is not None
    assert int(ignored[1], 16) >> (signal.SIGHUP - 1) & 1


@pytest.mark.parametrize(
    ("ends", "code"), [("sys.exit(4)", 4), ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL)]
)
def test_what_ends_first_is_named_and_its_exit_code_is_told(tmp_path: Path, ends: str, code: int) -> None:
    starting = "import time; print('up', flush=True); time.sleep(60)"  # it dies of the signal
    ends_then = f"import os, signal, sys, time; time.sleep(0.3); {ends}"

    with watch(tmp_path, starting, beside=ends_then) as process:
        _, errors = process.communicate()

    assert process.returncode == code
    assert errors.splitlines()[-1] == "prometheus has ended, and what runs beside it ends too"


def test_without_prometheus_it_says_how_to_get_it(tmp_path: Path) -> None:
    command = ("--target", "127.0.0.1:1", "--program", str(tmp_path / "none"), "true")

    done = subprocess.run(
        [sys.executable, str(HERE / "watch.py"), *command], check=False, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert "apt-get install --no-install-recommends prometheus" in done.stderr
