"""Embeddings, as lists of numbers or as their bytes."""

from array import array
from base64 import b64encode
from collections.abc import Iterator, Sequence
from math import hypot
from sys import byteorder

from engine.request import Delta
from server.streams import Parts
from server.wire.embeddings import EmbeddingBody, EmbeddingList, EmbeddingRequest, EmbeddingUsage


class Embeddings:
    """Makes the answer to one body."""

    def __init__(self, body: EmbeddingRequest) -> None:
        self._model = body.model
        self._in_base64 = body.encoding_format == "base64"
        self._normalizes = body.normalize is not False

    def whole(self, parts: Parts) -> EmbeddingList:
        """The whole answer."""
        num_tokens = sum(part.end.usage.prompt_tokens for part in parts.values() if part.end)
        return EmbeddingList(
            object="list",
            data=list(self._bodies(parts)),
            model=self._model,
            usage=EmbeddingUsage(prompt_tokens=num_tokens, total_tokens=num_tokens),
        )

    def _bodies(self, parts: Parts) -> Iterator[EmbeddingBody]:
        for (prompt, _), part in sorted(parts.items()):
            yield EmbeddingBody(object="embedding", index=prompt, embedding=self._embedding(part))

    def _embedding(self, part: Delta) -> list[float] | str:
        """The values as float32 has them, in both forms."""
        assert part.embedding is not None, "a request for an embedding that was read to its end has one"
        values = array("f", _normalized(part.embedding) if self._normalizes else part.embedding)
        return _in_base64(values) if self._in_base64 else list(values)


def _normalized(values: Sequence[float]) -> Iterator[float]:
    """Scaled to length 1; nothing has no direction, and stays."""
    length = hypot(*values) or 1.0
    return (value / length for value in values)


def _in_base64(values: "array[float]") -> str:
    """The bytes of little-endian float32 values."""
    if byteorder == "big":  # pragma: no cover  # no machine that this runs on
        values.byteswap()
    return b64encode(values).decode()
