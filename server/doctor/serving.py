"""Serving: whether the port and the store are to be had, and how the model and its cache fit this machine."""

from collections.abc import Iterator

from config.catalogue import SETTINGS
from config.flags import SHORT
from config.settings import Settings
from engine.errors import CacheTooLarge, CacheTooSmall, SettingUnusable, StatesTooLarge
from engine.survey import ModelSurvey
from server.doctor.findings import NOT_KNOWN, Finding, Grade, bytes_told
from server.doctor.port import PortState
from server.doctor.store import StoreState

STEP_BYTES = 512 << 20  # what Python, torch and a step's buffers take beside weights and cache, about
LOADED_FULL = 0.9  # of the memory that is free
ANOTHER_MODEL = "Name another model or path; README.md lists what is served."


def port(state: PortState, settings: Settings) -> Finding:
    """Who is at the address that would be listened on."""
    where = f"{settings.server.host}:{settings.server.port}"
    if settings.server.port == 0:
        return Finding("port", "any that is free")
    if state.fault is None:
        return Finding("port", f"{where} is free")
    if state.version is not None:
        advice = "A second one needs a port of its own: --port."
        return Finding("port", f"Tidemark {state.version} answers at {where}", Grade.NOTE, advice)
    text = f"{where} can't be listened on: {state.fault}"
    return Finding("port", text, Grade.FAULT, "End what listens there, or give another --port (or --host).")


def keys(settings: Settings) -> Iterator[Finding]:
    """Whether whoever reaches the port may ask."""
    server = settings.server
    if server.host not in ("127.0.0.1", "::1", "localhost") and not server.api_keys:
        advice = "Whoever reaches this address may ask: set TIDEMARK_SERVER__API_KEYS."
        yield Finding("keys", f"none, and {server.host} is reached from other machines", Grade.WARNING, advice)


def store(state: StoreState, settings: Settings, *, beside: bool) -> Finding:
    """Whether responses can be kept in the file that is named; `beside`: a Tidemark serves at this port."""
    path = settings.server.store_path
    if state.fault is None:
        return Finding("store", f"responses are kept in {path}")
    text = f"responses can't be kept in {path}: {state.fault}"
    if state.held:
        advice = "A second server needs a file of its own: --server-store-path."
        return Finding("store", text, Grade.NOTE if beside else Grade.FAULT, advice)
    return Finding("store", text, Grade.FAULT, "Give another --server-store-path, or leave it out.")


def traces(missing: str | None) -> Finding:
    """Whether requests can be traced, which was asked for; `missing` is what serving would say."""
    if missing is None:
        return Finding("traces", "of each request, to an OpenTelemetry collector")
    return Finding("traces", missing, Grade.FAULT, "Install the extra, or leave --otel out.")


def no_model() -> Iterator[Finding]:
    """None was named."""
    yield Finding(
        "model", "none was named", Grade.NOTE, "Give MODEL to have it and its memory looked at: tidemark doctor MODEL."
    )


def refused(name: str, reason: str, advice: str = ANOTHER_MODEL) -> Iterator[Finding]:
    """The engine would not serve it."""
    yield Finding("model", f"{name}: {reason}", Grade.FAULT, advice)


def advice_on(error: Exception, settings: Settings) -> str:
    """What to change where the engine refuses a model, or what was asked for with it."""
    size = "--cache-memory" if settings.cache.num_blocks is None else "--num-blocks"
    match error:
        case SettingUnusable(setting=setting):
            return f"Give another {SHORT.get(setting, SETTINGS[setting].flag)}, or leave it out."
        case CacheTooSmall():
            return f"Raise {size}."
        case CacheTooLarge():
            return f"Lower {size}, or leave it out."
        case StatesTooLarge():
            return f"Raise {size}, or lower --max-sequences or --cache-checkpoint-bytes."
        case _:
            return ANOTHER_MODEL


def not_fetched(name: str) -> Iterator[Finding]:
    """It is the hub's still."""
    yield Finding(
        "model", f"{name} is not on this machine", Grade.NOTE, "`tidemark serve` fetches it from the hub, once."
    )


def model(found: ModelSurvey, settings: Settings, free: int | None) -> Iterator[Finding]:
    """The model's files, its path through the engine, and its memory. `free` is what this process may take."""
    yield Finding("model", f"{found.path}: {found.architecture}, {found.stored_as}, {bytes_told(found.file_bytes)}")
    yield _path(found, settings)
    yield Finding("weights", f"about {bytes_told(found.weight_bytes)} in memory{_kept(settings)}")
    yield _context(found)
    yield _cache(found, settings)
    yield _fit(found, free)


def _kept(settings: Settings) -> str:
    return "" if settings.model.weights == "auto" else f", as {settings.model.weights}"


def _path(found: ModelSurvey, settings: Settings) -> Finding:
    if found.runs_on.endswith("torch") and settings.model.kernels != "torch":
        advice = (
            "The kernels do not run it, for the reason above; another model of its kind may be several times faster."
        )
        return Finding("runs on", found.runs_on, Grade.WARNING, advice)
    return Finding("runs on", f"{found.runs_on}; a small copy answered as transformers does")


def _context(found: ModelSurvey) -> Finding:
    if found.context_length < found.model_context_length:
        text = f"{found.context_length} positions, of {found.model_context_length} that the model has"
        return Finding("context", text, Grade.NOTE, "The cache holds no more: raise --cache-memory.")
    return Finding("context", f"{found.context_length} positions")


def _cache(found: ModelSurvey, settings: Settings) -> Finding:
    return Finding("cache", f"{bytes_told(found.cache_bytes)}, for {settings.engine.max_sequences} sequences at once")


def _fit(found: ModelSurvey, free: int | None) -> Finding:
    if free is None:
        return Finding(
            "all together",
            f"about {bytes_told(found.weight_bytes + found.cache_bytes + STEP_BYTES)} of memory; free: {NOT_KNOWN}",
        )
    all_bytes = found.weight_bytes + found.cache_bytes + STEP_BYTES
    text = f"about {bytes_told(all_bytes)} at full load, of {bytes_told(free)} that may be taken"
    if found.weight_bytes > free:
        return Finding(
            "all together",
            text,
            Grade.FAULT,
            "The weights alone do not fit: take --weights int4, a smaller model, or more memory.",
        )
    if all_bytes > LOADED_FULL * free:
        return Finding(
            "all together", text, Grade.WARNING, "Lower --cache-memory, or take --cache-dtype int8 or --weights int8."
        )
    return Finding("all together", text)
