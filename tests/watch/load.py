"""Load: streams, repeated prompts, guesses, grammars, refusals and clients that leave, until it is told to stop."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

STEM = "the one in the hello of the and to the one in a the hello " * 4  # longer than a few blocks
WORDS = ["the", "and", "to", "of", "hello", "in", "a", "one"]
Body = dict[str, Any]


@contextmanager
def load(url: str, model: str) -> Iterator[None]:
    """Keep the server at `url` busy meanwhile."""
    done = threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_all_kinds(url, model, done)))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


async def _all_kinds(url: str, model: str, done: threading.Event) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=300) as client, asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(_ask(client, model, number, done))
        group.create_task(_guess(client, model, done))
        group.create_task(_match(client, model, done))
        group.create_task(_be_refused(client, model, done))
        group.create_task(_leave(client, model, done))


async def _ask(client: httpx.AsyncClient, model: str, number: int, done: threading.Event) -> None:
    """Prompts with one beginning."""
    while not done.is_set():
        number += 3
        prompt = f"{STEM}{WORDS[number % len(WORDS)]}"
        body = {"model": model, "prompt": prompt, "max_tokens": 40, "seed": number, "temperature": 1.0, "n": 2}
        (await client.post("/v1/completions", json=body)).raise_for_status()


async def _guess(client: httpx.AsyncClient, model: str, done: threading.Event) -> None:
    """The same question again, with its answer as the guess."""
    body: Body = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 24}
    body |= {"temperature": 0, "ignore_eos": True}
    guess = "none yet"
    while not done.is_set():
        prediction = {"type": "content", "content": guess}
        answer = (await client.post("/v1/chat/completions", json=body | {"prediction": prediction})).raise_for_status()
        guess = answer.json()["choices"][0]["message"]["content"] or "none"


async def _match(client: httpx.AsyncClient, model: str, done: threading.Event) -> None:
    """A grammar that is new, the same again, and one that is refused."""
    body = {"model": model, "prompt": STEM, "max_tokens": 24, "temperature": 1.0}
    number = 0
    while not done.is_set():
        number += 1
        for regex in (f"{number} [a-z ]+",) * 2:
            (await client.post("/v1/completions", json=body | {"guided_regex": regex})).raise_for_status()
        await client.post("/v1/completions", json=body | {"guided_regex": "("})
        await asyncio.sleep(0.2)


async def _be_refused(client: httpx.AsyncClient, model: str, done: threading.Event) -> None:
    while not done.is_set():
        await client.post("/v1/completions", json={"model": model, "prompt": STEM * 100})
        await asyncio.sleep(0.2)


async def _leave(client: httpx.AsyncClient, model: str, done: threading.Event) -> None:
    body = {"model": model, "prompt": STEM, "max_tokens": 200, "stream": True, "ignore_eos": True}
    while not done.is_set():
        async with client.stream("POST", "/v1/completions", json=body) as stream:
            await anext(stream.aiter_lines())
        await asyncio.sleep(0.5)
