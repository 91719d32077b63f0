"""What an image weighs, by parts."""

from collections.abc import Iterator, Mapping

from deploy.image.engine import CACHE, MODELS, Container, Refused

PACKAGES = "/opt/tidemark/lib/python3.11/site-packages"
OURS = ("config", "engine", "server")
PARTS: Mapping[str, tuple[str, ...]] = {
    "torch": (f"{PACKAGES}/torch",),
    "transformers": (f"{PACKAGES}/transformers",),
    "numpy": (f"{PACKAGES}/numpy", f"{PACKAGES}/numpy.libs"),
    "sympy, which torch imports": (f"{PACKAGES}/sympy",),
    "Tidemark, with the kernels": tuple(f"{PACKAGES}/{name}" for name in OURS),
}
MB = 1_000_000


def parts(container: Container) -> Iterator[tuple[str, float]]:
    """Each part and its megabytes; the last is the whole."""
    whole, all_packages, model = (_megabytes(container, path) for path in ("/", PACKAGES, "/opt/default"))
    named = {name: sum(_megabytes(container, path) for path in paths) for name, paths in PARTS.items()}
    yield "the base", whole - all_packages - model
    yield from named.items()
    yield "the other packages", all_packages - sum(named.values())
    yield "the model", model
    yield "all", whole


def _megabytes(container: Container, path: str) -> float:
    left_out = [f"--exclude={folder}" for folder in (MODELS, CACHE)]
    done = container.inside("du", "--summarize", "--bytes", "--one-file-system", *left_out, path)
    if not done.stdout:  # folders that only root may read are left out, and told
        raise Refused(f"{path} could not be measured: {done.stderr}")
    return int(done.stdout.split()[0]) / MB
