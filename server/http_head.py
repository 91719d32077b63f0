"""A bound on the head of a request: uvicorn takes request lines and headers of any length, in quadratic time."""

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD_BYTES = 128 * 1024  # eight times what other servers allow


class BoundedHead(HttpToolsProtocol):
    """Refuses a head that goes on and on. What arrives together with its first byte is not counted."""

    head_bytes: int | None = None  # None: not within a head

    def on_message_begin(self) -> None:
        """The first byte of a request."""
        self.head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The empty line after the headers."""
        self.head_bytes = None
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self.head_bytes is not None:
            self.head_bytes += len(data)
            if self.head_bytes > MAX_HEAD_BYTES:
                self.send_400_response(f"the request's head is longer than {MAX_HEAD_BYTES} bytes")
                return
        super().data_received(data)
