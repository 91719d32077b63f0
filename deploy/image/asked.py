"""What is asked of an image that runs: that it answers, that it is confined, and that it ends as it should."""

import http.client
import json
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from deploy.image.engine import CACHE, MODELS, TEMPORARY, Config, Container

READY_SECONDS = 300
DRAIN_SECONDS = 42  # server.drain_seconds and the 12 seconds after it
QUESTION = "What is a tide?"
LONG = 200  # tokens of the answer that runs as the signal comes
TOOLS = (("doctor",), ("top", "--once"), ("chat", "--help"), ("trace", "--help"))
UNWRITTEN = ("/", "/opt/tidemark", "/etc", MODELS)
WRITTEN = (TEMPORARY, CACHE)


@dataclass(frozen=True, slots=True)
class Claim:
    """What should hold, what was seen, and whether it held."""

    text: str
    seen: str
    held: bool

    def __str__(self) -> str:
        return f"{'held' if self.held else 'DID NOT HOLD'}: {self.text}: {self.seen}"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the container answers on this machine."""

    port: int

    def get(self, path: str) -> tuple[int, str]:
        """Status and body; status 0 where nobody answers."""
        return self._send("GET", path, None)

    def post(self, path: str, body: object) -> tuple[int, str]:
        """The same, with a body."""
        return self._send("POST", path, json.dumps(body))

    def _send(self, method: str, path: str, body: str | None) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=READY_SECONDS)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (OSError, http.client.HTTPException) as error:
            return 0, str(error)
        finally:
            connection.close()


def ready(address: Address, container: Container) -> Claim:
    """Wait until it is, but not for ever, nor for one that has ended."""
    began = time.monotonic()
    status = 0
    while status != http.client.OK and not container.over() and time.monotonic() - began < READY_SECONDS:
        time.sleep(0.1)
        status, _ = address.get("/ready")
    when = f"after {time.monotonic() - began:.1f} s"
    return Claim("it gets ready", f"it ended {when}" if container.over() else when, status == http.client.OK)


def claims(container: Container, config: Config, address: Address) -> Iterator[Claim]:
    """All that is asked of one that is ready, in an order: the last ones end it."""
    yield _answer(address)
    yield _counted(address)
    yield _page(address)
    yield from (_runs(container, *arguments) for arguments in TOOLS)
    yield _healthy(container, config)
    yield _first_process(container)
    yield _nothing_written(container)
    yield from (_refused_to(container, folder) for folder in UNWRITTEN)
    yield from (_may_write_to(container, folder) for folder in WRITTEN)
    yield Claim("models and cache are volumes", " ".join(sorted(config.volumes)), config.volumes == {MODELS, CACHE})
    yield from _ending(container, address)


def _answer(address: Address) -> Claim:
    status, body = address.post("/v1/chat/completions", _chat(address, 40))
    said = json.loads(body)["choices"][0]["message"]["content"] if status == http.client.OK else body
    return Claim(f"it answers {QUESTION!r}", repr(said), bool(said) and status == http.client.OK)


def _counted(address: Address) -> Claim:
    _, body = address.get("/metrics")
    lines = [line for line in body.splitlines() if line.startswith("tidemark_requests_total{") and "finished" in line]
    count = sum(float(line.rpartition(" ")[2]) for line in lines)
    return Claim("its metrics count the answer", f"{count:.0f} finished", count == 1)


def _page(address: Address) -> Claim:
    status, body = address.get("/")
    return Claim("it shows its page", f"{status}, {len(body)} characters", status == http.client.OK and "<html" in body)


def _runs(container: Container, *arguments: str) -> Claim:
    done = container.inside("tidemark", *arguments)
    first = (done.stdout or done.stderr).strip().partition("\n")[0]
    return Claim(f"`tidemark {' '.join(arguments)}` runs in it", first, done.returncode == 0)


def _healthy(container: Container, config: Config) -> Claim:
    if not config.health:
        return Claim("its health check passes", "it has none", held=False)
    done = container.inside(*config.health)
    return Claim("its health check passes", done.stderr.strip() or f"exit code {done.returncode}", done.returncode == 0)


def _first_process(container: Container) -> Claim:
    status, command = (container.inside("cat", f"/proc/1/{name}").stdout for name in ("status", "cmdline"))
    found = dict(re.findall(r"^(Uid|CapEff|CapBnd|NoNewPrivs):\s+(\S+)", status, re.MULTILINE))
    held = int(found.get("Uid", 0)) > 0 and "tidemark" in command and set(found.get("CapEff", "1")) == {"0"}
    seen = ", ".join(f"{name} {value}" for name, value in found.items())
    return Claim("process 1 is the server, without root and capabilities", seen, held)


def _nothing_written(container: Container) -> Claim:
    found = container.inside("find", *WRITTEN, "-type", "f").stdout.split()
    return Claim("serving has written no file", " ".join(found) or "none", not found)


def _refused_to(container: Container, folder: str) -> Claim:
    done = container.inside("touch", f"{folder}/written")
    return Claim(f"it can't write to {folder}", done.stderr.strip(), done.returncode != 0)


def _may_write_to(container: Container, folder: str) -> Claim:
    done = container.inside("touch", f"{folder}/written")
    return Claim(f"it may write to {folder}", done.stderr.strip() or "written", done.returncode == 0)


def _ending(container: Container, address: Address) -> Iterator[Claim]:
    """While an answer is made, which is made to its end."""
    found: list[tuple[int, str]] = []
    asking = threading.Thread(
        target=lambda: found.append(address.post("/v1/chat/completions", _chat(address, LONG) | {"ignore_eos": True}))
    )
    asking.start()
    _until_one_runs(address)
    began = time.monotonic()
    code = container.stop(DRAIN_SECONDS)
    yield Claim("SIGTERM ends it with 0", f"{code}, after {time.monotonic() - began:.1f} s", code == 0)
    asking.join()
    ((status, body),) = found
    made = json.loads(body)["usage"]["completion_tokens"] if status == http.client.OK else 0
    yield Claim("the answer that it was making comes whole", f"{made} of {LONG} tokens", made == LONG)


def _until_one_runs(address: Address) -> None:
    for _ in range(100):
        if re.search(r"^tidemark_requests_running\{.*\} 1", address.get("/metrics")[1], re.MULTILINE):
            return
        time.sleep(0.02)


def _chat(address: Address, tokens: int) -> dict[str, object]:
    model = json.loads(address.get("/v1/models")[1])["data"][0]["id"]
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": model, "messages": messages, "max_tokens": tokens, "temperature": 0}
