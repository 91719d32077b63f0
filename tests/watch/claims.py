"""Claims: what the board and the rules must show of a server, tried one after the other."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import torch

from tests.deploy.claim import Claim
from tests.deploy.promql import names_in
from tests.deploy.watched import DEPLOY, RULES, RULES_TEST, queries, rules
from tests.http.processes import ServerProcess
from tests.models.architectures import ARCHITECTURES, make_model
from tests.tiny import VOCABULARY_SIZE, make_tiny_tokenizer
from tests.watch.load import load
from tests.watch.prometheus import Prometheus, watching

MODEL = "tiny"
LISTEN = "127.0.0.1:19090"
WINDOW = "15s"  # of rates: long enough that every kind of request is in it
SCRAPES = 20
# Of the board's queries those that may rest at 0 under this load: nothing fails, pauses, parks, fills or is recurrent.
MAY_REST = {"Sequences B", "Sequences C", "Sequences D", "Recurrent states by state A", "Recurrent states by state B"}
MAY_REST |= {"Marks that went back, a second B", "Errors A"}


def claims(prometheus: str, promtool: str, folder: Path) -> Iterator[Claim]:
    """All of them, in the order in which they are tried. `folder` takes a model."""
    yield from _checked(promtool)
    make_windowed_model(folder)
    flags = ("--served-model-name", MODEL, "--port", "0", "--num-blocks", "96", "--num-threads", "1")
    with ServerProcess("server", "serve", str(folder), *flags) as server, server.ready_client() as client:
        url = str(client.base_url).rstrip("/")
        with watching(prometheus, url.removeprefix("http://"), listen=LISTEN) as watcher:
            with load(url, MODEL):
                watcher.wait_for(f"count_over_time(tidemark_requests_running[1m]) >= {SCRAPES}")
                yield from _under_load(watcher)
            yield from _afterwards(watcher)
            server.send(signal.SIGKILL)
            watcher.wait_for('up{job="tidemark"} == 0')
            yield Claim("a server that was killed is seen to be down", 1)


def make_windowed_model(folder: Path) -> None:
    """A tiny random model with two cache groups, and a tokenizer."""
    make_tiny_tokenizer(folder)
    config = ARCHITECTURES["gemma3"]()
    config.vocab_size = VOCABULARY_SIZE
    with torch.random.fork_rng(devices=[]):
        make_model(config).save_pretrained(folder)


def _checked(promtool: str) -> Iterator[Claim]:
    config = DEPLOY / "prometheus" / "prometheus.yml"
    for *words, file in (("check", "config", config), ("check", "rules", RULES), ("test", "rules", RULES_TEST)):
        done = subprocess.run([promtool, *words, file], check=False, capture_output=True, text=True)
        text = f"`promtool {' '.join(map(str, words))}` of `{file.name}`"
        yield Claim(text, 1, None if done.returncode == 0 else done.stdout + done.stderr)


def _under_load(watcher: Prometheus) -> Iterator[Claim]:
    board = queries(window=WINDOW)
    yield Claim.over("a query of the board returns numbers", list(board), lambda key: not watcher.query(board[key]))
    moving = [key for key in board if key not in MAY_REST]
    yield Claim.over("and one above 0", moving, lambda key: all(value <= 0 for _, value in watcher.query(board[key])))
    variables = (("model", "tidemark_server_state"), ("instance", 'tidemark_server_state{model=~".+"}'))
    yield Claim.over(
        "a variable of the board has values",
        [label for label, _ in variables],
        lambda label: not watcher.values(label, dict(variables)[label]),
    )
    told = {rule["name"]: rule for rule in watcher.rules()}
    names = [rule.name for rule in rules()]
    yield Claim.over("a rule is evaluated without an error", names, lambda name: told[name]["health"] != "ok")
    selectors = sorted({str(part) for rule in rules() for part in names_in(rule.expr).selectors})
    yield Claim.over("a series that a rule reads is there", selectors, lambda selector: not watcher.query(selector))
    yield Claim.over(
        "no alert fires", [rule.name for rule in rules() if rule.alert], lambda name: told[name]["state"] == "firing"
    )


def _afterwards(watcher: Prometheus) -> Iterator[Claim]:
    watcher.wait_for("tidemark:sequences == 0 and tidemark:referenced == 0")
    yield Claim("once quiet, nothing is held", 1)
    apart = "sum(tidemark_kv_blocks) - sum(tidemark_kv_blocks_capacity)"
    found = watcher.query(f"max_over_time(({apart})[5m:1s]) - min_over_time(({apart})[5m:1s])")
    wrong = [value for _, value in [*found, *watcher.query(apart)] if value]
    yield Claim("the stack of blocks filled the capacity in every scrape", 1, str(wrong) if wrong else None)
