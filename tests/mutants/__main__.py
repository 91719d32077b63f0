"""Puts each fault into a copy of the tree and runs the tests that must find it: `python -m tests.mutants [FAULT…]`.

Prints a table; exits with 1 if a mutant survives, with 2 if the tests fail without one.
"""

import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory

from tests.mutants.edits import Mutant
from tests.mutants.faults import MUTANTS

ROOT = Path(__file__).parent.parent.parent
NUM_COPIES = 2  # as many at once as a small machine has cores
LIMIT_SECONDS = 600  # a mutant that hangs is found as well
HOST_FILES = (
    *("cache/test_blocks", "cache/test_prefix", "cache/test_tables"),
    *("cache/test_hits", "cache/test_slots", "cache/test_windows"),
    *(
        "test_ledger",
        "test_sequence",
        "test_roster",
        "test_admission",
        "test_pace",
        "test_plan",
        "test_commit",
        "test_publish",
        "test_drafted_steps",
        "test_grammar_steps",
        "test_embeddings",
    ),
    *("grammar/test_compiler", "grammar/test_masks", "draft/test_drafts"),
    *("test_stream", "test_view", "test_engine"),
)
HOST_TESTS = (
    "--hypothesis-profile=mutant",
    *(f"tests/engine/{name}.py" for name in HOST_FILES),
    *(f"tests/laws/test_machine.py::test_any_life_of_an_engine_keeps_the_laws[{part}]" for part in (0, 1)),
)
MODEL_TESTS = tuple(
    f"tests/engine/model/test_{name}.py"
    for name in ("attention", "experts", "grouped", "latent", "tempered", "shrink", "answer", "sampler")
)
NATIVE_TESTS = (
    *("-k", "not qwen and not olmo and not granite and not smollm3 and not starcoder2 and not mha and not mqa"),
    "tests/engine/model/test_angles.py",
    "tests/engine/model/test_parameters.py",
    "tests/engine/model/test_native_forward.py",
    "tests/engine/model/kernels/test_choice.py",
    "tests/engine/model/kernels/test_product.py",
    "tests/engine/model/kernels/test_ops.py",
    "tests/engine/model/kernels/test_attention.py",
    "tests/models/test_mixed_bits.py",
    "tests/models/test_packed.py",
    "tests/models/test_native.py",
)
RECURRENT_TESTS = (
    *("-k", "not experts and not qwen and not granite and not bamba and not avx512"),
    "tests/engine/model/kernels/test_scans.py",
    "tests/engine/model/test_scans.py",
    "tests/engine/model/test_shrink.py",
    "tests/engine/model/mixers",
    "tests/models/test_recurrent.py",
)
READING_TESTS = (
    "--hypothesis-profile=mutant",
    "tests/server/reading",
    "tests/server/test_calling.py",
    "tests/http/test_tools.py",
)
GRAMMAR_TESTS = (
    "--hypothesis-profile=mutant",
    "tests/engine/grammar",
    "tests/server/test_structure.py",
    "tests/server/test_tags.py",
    "tests/server/test_calling.py",
    "tests/http/test_failed_grammars.py",
)
KEEPING_TESTS = (  # streams that can be resumed, and responses that are kept
    *(f"tests/server/test_{name}.py" for name in ("record", "records", "telling", "following", "sse", "store")),
    "tests/http/test_resume.py",
    "tests/http/test_responses.py",
)
DRAFT_MODEL_TESTS = (
    "--hypothesis-profile=mutant",
    "tests/engine/draft",
    "tests/engine/cache/test_beside.py",
    "tests/engine/model/test_drafter.py",
    "tests/engine/model/test_draft_model.py",
    "tests/engine/test_drafting.py",
    "tests/engine/test_pace.py",
    "tests/laws/test_machine.py::test_any_life_of_an_engine_keeps_the_laws[0]",
)
WATCHER_TESTS = (
    "--hypothesis-profile=mutant",
    "tests/engine/test_holding.py",
    "tests/engine/test_preemption.py",
    "tests/engine/test_roster.py",
    "tests/engine/cache/test_blocks.py",
    "tests/server/test_timelines.py",
    "tests/server/test_lookout.py",
    "tests/server/render/test_sight.py",
    "tests/server/render/test_timeline.py",
    "tests/laws/test_watchers.py",
)
METRICS_TESTS = tuple(f"tests/server/test_{name}.py" for name in ("exposition", "families", "metrics"))
LOGS_TESTS = ("tests/http/test_log_lines.py", "tests/server/test_traces.py")
TESTS_OF = {  # faults that have tests of their own
    "recurrent": RECURRENT_TESTS,
    "draft model": DRAFT_MODEL_TESTS,
    "grammar": GRAMMAR_TESTS,
    "reading": READING_TESTS,
    "watchers": WATCHER_TESTS,
    "metrics": METRICS_TESTS,
    "logs": LOGS_TESTS,
    "resume": KEEPING_TESTS,
    "store": KEEPING_TESTS,
}
LIBRARY = "engine/model/kernels/libtidemark.so"
PYTEST = (sys.executable, "-B", "-m", "pytest", "-p", "no:cacheprovider", "-x", "-q", "--tb=line", "--show-capture=no")


def copy_tree(target: Path) -> Path:
    """A copy of what the tests need."""
    for name in ("engine", "server", "config", "tests"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, target)
    return target


def build_library(root: Path) -> None:
    """Compile the native library of the tree at `root`."""
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace", "--force"]
    subprocess.run(command, cwd=root, capture_output=True, check=True)


def failed_test(root: Path, tests: tuple[str, ...]) -> str | None:
    """The first of `tests` that fails in the tree at `root`, or None if all pass."""
    command = (*PYTEST, *tests)
    try:
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"nothing within {LIMIT_SECONDS} seconds"
    if done.returncode == 0:
        return None
    if done.returncode < 0:  # native code that reads what is not there
        return f"the tests' process died of {signal.Signals(-done.returncode).name}"
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert failed, done.stdout + done.stderr
    return failed[0].removeprefix("FAILED ")


def judge(mutant: Mutant, copies: "SimpleQueue[Path]") -> tuple[Mutant, str | None, float]:
    """Who finds the mutant, and in what time."""
    root, began = copies.get(), time.monotonic()
    before = mutant.apply(root)
    try:
        if mutant.compiled:
            build_library(root)
        return mutant, failed_test(root, tests_for(mutant)), time.monotonic() - began
    finally:
        for path, source in before.items():
            path.write_text(source, encoding="utf-8")
        if mutant.compiled:
            shutil.copy(ROOT / LIBRARY, root / LIBRARY)
        copies.put(root)


def tests_for(mutant: Mutant) -> tuple[str, ...]:
    """The tests that must find it."""
    if mutant.fault in TESTS_OF:
        return TESTS_OF[mutant.fault]
    if mutant.native:
        return NATIVE_TESTS
    return MODEL_TESTS if mutant.in_model else HOST_TESTS


def main(wanted: list[str]) -> int:
    """Judge the mutants of the wanted faults, or all."""
    mutants = [mutant for mutant in MUTANTS if not wanted or mutant.fault in wanted]
    num_survivors = 0
    with TemporaryDirectory() as folder, ThreadPoolExecutor(NUM_COPIES) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(NUM_COPIES):
            copies.put(copy_tree(Path(folder) / str(number)))
        for tests in dict.fromkeys(map(tests_for, mutants)):
            if (unharmed := failed_test(Path(folder) / "0", tests)) is not None:
                sys.stderr.write(f"{unharmed} fails without a mutant\n")
                return 2
        for mutant, finder, seconds in pool.map(lambda mutant: judge(mutant, copies), mutants):
            num_survivors += finder is None
            verdict = "SURVIVED" if finder is None else "killed"
            sys.stdout.write(f"{mutant.fault:7} {verdict:8} {seconds:5.0f} s  {mutant.what}\n")
            sys.stdout.write(f"{'':26}{(finder or '-').split(' - ')[0]}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(mutants) - num_survivors} of {len(mutants)} mutants killed\n")
    return 1 if num_survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
