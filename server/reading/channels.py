"""Channels: answers that are messages of their own, each with a channel, as gpt-oss writes them."""

from collections.abc import Callable

from server.reading.calls import Calls, Frame, read_arguments
from server.reading.tape import Steps, Tape

MAX_HEADER = 512  # characters
FUNCTIONS = "functions."  # what comes before a function's name where a message is addressed to it
CHANNEL, MESSAGE, START = "<|channel|>", "<|message|>", "<|start|>"
CONSTRAIN, END = "<|constrain|>", "<|end|>"
ENDS = (END, "<|call|>", "<|return|>")


class Harmony:
    """`<|channel|>analysis<|message|>…<|end|>` is reasoning, a message to a function a call, and any other text."""

    marks: tuple[str, ...] = (CHANNEL, START)
    openings: tuple[str, ...] = (CHANNEL,)
    inner: tuple[str, ...] = (MESSAGE, CONSTRAIN, *ENDS)
    frame: Frame = ("", "", "")
    around: Frame = (f"{CHANNEL}commentary to={FUNCTIONS}", f" {CONSTRAIN}json{MESSAGE}", "")

    def name(self, name: str) -> str:
        """See `CallFormat`."""
        return name

    def read(self, tape: Tape, calls: Calls) -> Steps[None]:
        """See `CallFormat`. Reads one message."""
        yield from tape.expect(*self.marks)
        header = yield from tape.until(MESSAGE, MAX_HEADER)
        words = header.replace(CHANNEL, " channel=").replace(CONSTRAIN, " ").split()
        recipient = next((word.removeprefix("to=") for word in words if word.startswith("to=")), "")
        if recipient.startswith(FUNCTIONS):
            yield from tape.space()
            yield from read_arguments(tape, calls, recipient.removeprefix(FUNCTIONS))
        else:
            tape.settle()
            thinks = words[:1] == ["analysis"] or "channel=analysis" in words
            yield from _read_body(tape, tape.say_reasoning if thinks else tape.say_text)
        yield from tape.close(*ENDS)


def _read_body(tape: Tape, say: Callable[[int], None]) -> Steps[None]:
    """A message's text, up to its end or the next one."""
    if (yield from tape.find((*ENDS, START, CHANNEL), say)) is None:
        say(tape.at + len(tape.rest))
