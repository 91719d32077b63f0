"""A proxy between the page and its server, which cuts connections when told to."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx


class Proxy:
    """Hands bytes on in both directions."""

    def __init__(self, url: str) -> None:
        self._target = httpx.URL(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self._serve()))
        self.url = ""

    def cut(self) -> int:
        """Break every connection off: how many there were."""
        return asyncio.run_coroutine_threadsafe(self._cut(), self._loop).result()

    def start(self) -> None:
        """Listen on a free port."""
        self._thread.start()
        self._listening.wait()

    def end(self) -> None:
        """Break everything off and listen no more."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()

    async def _cut(self) -> int:
        writers = list(self._writers)
        for writer in writers:
            writer.transport.abort()
        return len(writers) // 2

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._listening.set()
        await self._ending.wait()
        server.close()
        await self._cut()
        await asyncio.gather(*(one for one in asyncio.all_tasks() if one is not asyncio.current_task()))

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            their_reader, their_writer = await asyncio.open_connection(self._target.host, self._target.port)
        except OSError:
            writer.transport.abort()
        else:
            self._writers.add(their_writer)
            await asyncio.gather(self._hand_on(reader, their_writer), self._hand_on(their_reader, writer))
            self._writers.discard(their_writer)
        self._writers.discard(writer)

    @staticmethod
    async def _hand_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()


@contextmanager
def proxied(url: str) -> Iterator[Proxy]:
    """A proxy of the server at `url`."""
    proxy = Proxy(url)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.end()
