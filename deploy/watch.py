"""Runs a server and Prometheus beside it: `python deploy/watch.py --target HOST:PORT COMMAND...`.

Until one of them ends or a signal comes; then the other is asked to end too. What Prometheus collects lies in `--data`.
"""

import argparse
import asyncio
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from server.signals import SIGNALLED, endings, once_for_a_terminal

HERE = Path(__file__).parent
CONFIGURED = "tidemark:8000"  # the address in prometheus.yml, which `--target` takes the place of
DAYS = "15d"
MISSING = (
    "prometheus is not here. On Debian and Ubuntu: `apt-get install --no-install-recommends prometheus`, then\n"
    "`systemctl disable --now prometheus`, since its own service takes port 9090. Elsewhere put a prometheus binary\n"
    "on the PATH, or run deploy/compose.yaml where there is a container engine."
)
Command = Sequence[str]


def configure(folder: Path, target: str) -> Path:
    """Put Prometheus's files into `folder`, with `target` as the address of the server; the file to start it with."""
    for file in (HERE / "prometheus").iterdir():
        (folder / file.name).write_text(file.read_text().replace(CONFIGURED, target))
    return folder / "prometheus.yml"


def prometheus(program: str, *, config: Path, data: Path, listen: str) -> Command:
    """The command that runs it."""
    return (
        program,
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        f"--storage.tsdb.retention.time={DAYS}",
        f"--web.listen-address={listen}",
        "--log.level=warn",
    )


async def run_together(commands: Sequence[Command]) -> int:
    """Run all until one ends or a signal comes, end the rest, and return the first exit code that is not 0.

    The first to come, as a shell has it: what is asked to end while it starts may die of that. Each runs in a session
    of its own: the terminal's interrupt reaches it once, through here. A second signal is passed on as well.
    """
    ended = asyncio.Event()
    processes: list[asyncio.subprocess.Process] = []
    codes: list[int] = []

    def end_them() -> None:
        ended.set()
        for process in processes:
            if process.returncode is None:
                process.terminate()

    async def run(command: Command) -> None:
        process = await asyncio.create_subprocess_exec(*command, start_new_session=True)
        processes.append(process)
        if ended.is_set():  # it came too late to be asked with the others
            process.terminate()
        try:
            codes.append(await process.wait())
        finally:  # also where another could not be started
            if not ended.is_set():
                sys.stderr.write(f"{Path(command[0]).name} has ended, and what runs beside it ends too\n")
                end_them()

    loop = asyncio.get_running_loop()
    heard = once_for_a_terminal(lambda _: end_them())
    for number in endings():
        loop.add_signal_handler(number, heard, number)
    async with asyncio.TaskGroup() as group:
        for command in commands:
            group.create_task(run(command))
    first = next((code for code in codes if code), 0)
    return first if first >= 0 else SIGNALLED - first


def main() -> int:
    """Start both, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python deploy/watch.py", description="Run a server and watch it.")
    parser.add_argument("--target", required=True, metavar="HOST:PORT", help="where the server will answer")
    parser.add_argument("--listen", default="127.0.0.1:9090", metavar="HOST:PORT", help="where Prometheus answers")
    parser.add_argument("--data", type=Path, default=Path(".prometheus"), help="the folder that it keeps its data in")
    parser.add_argument("--program", default="prometheus", help="the program to run")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what runs the server")
    arguments = parser.parse_args()
    program = shutil.which(arguments.program)
    if program is None:
        sys.stderr.write(MISSING + "\n")
        return 1
    sys.stderr.write(f"Prometheus on http://{arguments.listen}, its alerts on http://{arguments.listen}/alerts\n")
    with TemporaryDirectory(prefix="tidemark-watch-") as folder:
        config = configure(Path(folder), arguments.target)
        watcher = prometheus(program, config=config, data=arguments.data, listen=arguments.listen)
        return asyncio.run(run_together([arguments.command, watcher]))


if __name__ == "__main__":
    sys.exit(main())
