"""Chat: a conversation with a running server, line by line."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from server.console import Console
from server.terminal.answers import Answers, Piece
from server.terminal.client import ChatError
from server.terminal.counts import Counts, told, told_of_all
from server.terminal.lines import next_question
from server.terminal.screen import Screen
from server.terminal.settings import SETTINGS, UNSET
from server.terminal.talk import Talk

SLASH = "/"


@dataclass(frozen=True, slots=True)
class Command:
    """What a line that begins with a slash does; `takes` is what may stand behind its name."""

    takes: str
    meaning: str
    run: Callable[[str], None]


class Chat:
    """Reads questions by `read`, shows their answers on `screen`, and what goes wrong on `console`."""

    def __init__(
        self, answers: Answers, talk: Talk, *, screen: Screen, console: Console, read: Callable[[str], str]
    ) -> None:
        self._answers = answers
        self._talk = talk
        self._screen = screen
        self._console = console
        self._read = read
        self._all_counts: list[Counts] = []
        self._unanswered: str | None = None
        self._left = False
        self._failed = False
        self._commands = self._all_commands()

    def run(self) -> int:
        """Talk until there is nothing more to read. Where no person reads, 1 if anything went wrong."""
        while not self._left:
            try:
                line = next_question(self._read)
            except EOFError:
                if self._screen.is_terminal:
                    self._screen.line("")
                break
            except KeyboardInterrupt:
                if not self._screen.is_terminal:
                    raise
                self._screen.line("")  # the line that was begun is given up
                continue
            self._take(line)
        return 1 if self._failed and not self._screen.is_terminal else 0

    def _take(self, line: str) -> None:
        try:
            if line.startswith(SLASH) and not line.startswith(SLASH * 2):
                self._obey(line)
            elif line:
                self._ask(line.removeprefix(SLASH))
        except ChatError as error:
            self._failed = True
            self._screen.end()
            self._console.line(f"tidemark: {error}")

    # -- questions --------------------------------------------------------------------------------

    def _ask(self, question: str, *, guess: str = "") -> None:
        """One turn. Whatever ends it, as much of the answer as came is kept."""
        said: list[str] = []
        self._talk.ask(question)
        try:
            for part in self._answers.ask(self._talk.body(guess=guess)):
                self._show(part, said)
        except KeyboardInterrupt:
            if not self._screen.is_terminal:
                raise
            self._screen.note("stopped")
        finally:
            self._screen.end()
            self._unanswered = None if said else question
            self._talk.answered("".join(said))

    def _show(self, part: Piece | Counts, said: list[str]) -> None:
        if isinstance(part, Counts):
            self._all_counts.append(part)
            self._screen.note(told(part))
        elif part.is_thought:
            self._screen.think(part.text)
        else:
            said.append(part.text)
            self._screen.say(part.text)

    # -- commands ---------------------------------------------------------------------------------

    def _all_commands(self) -> Mapping[str, Command]:
        return {
            "help": Command("", "this list", self._help),
            "new": Command("", "begin a new conversation; the system text and the settings stay", self._new),
            "system": Command("[TEXT]", f"set the system text, or show it; {UNSET} takes it away", self._system),
            "set": Command("[NAME VALUE]", f"set how answers are made, or show it; {UNSET} unsets", self._set),
            "model": Command("[NAME]", "talk to another name that is served, or list them", self._model),
            "retry": Command("", "answer the last question again; the earlier answer is the guess", self._retry),
            "save": Command("FILE", "write the conversation to a file", self._save),
            "load": Command("FILE", "go on with a conversation that was saved", self._load),
            "stats": Command("", "what all answers took together", self._stats),
            "quit": Command("", "leave, as Ctrl-D does", self._quit),
        }

    def _obey(self, line: str) -> None:
        name, _, rest = line.removeprefix(SLASH).partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise ChatError(f"there is no /{name}; /help lists what there is, and // begins a text with a slash")
        command.run(rest.strip())

    def _help(self, _rest: str) -> None:
        for name, command in self._commands.items():
            self._screen.line(f"{f'/{name} {command.takes}':<20} {command.meaning}")
        self._screen.line('A line that ends with \\ goes on with the next, as does what stands between """ and """.')
        self._screen.line("Ctrl-C stops an answer, and what came of it stays in the conversation.")

    def _new(self, _rest: str) -> None:
        self._talk.messages.clear()
        self._unanswered = None

    def _system(self, rest: str) -> None:
        if rest:
            self._talk.system = "" if rest == UNSET else rest
        else:
            self._screen.line(self._talk.system or UNSET)

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if value:
            self._talk.set(name, value.strip())
            return
        for known in SETTINGS if not name else (name,):
            self._screen.line(f"{known} {self._talk.setting(known)}")

    def _model(self, rest: str) -> None:
        served = self._answers.models(waits=lambda: None)
        if not rest:
            for name in served:
                self._screen.line(f"{name}{' (this one)' if name == self._talk.model else ''}")
        elif rest in served:
            self._talk.model = rest
        else:
            raise ChatError(f"no such model; this server has {', '.join(served)}")

    def _retry(self, _rest: str) -> None:
        if self._unanswered is not None:
            self._ask(self._unanswered)
            return
        last = self._talk.take_back()
        if last is None:
            raise ChatError("there is no question yet")
        question, answer = last
        self._ask(question, guess=answer)

    def _save(self, rest: str) -> None:
        self._talk.save(_path(rest))

    def _load(self, rest: str) -> None:
        self._talk.load(_path(rest))
        self._unanswered = None

    def _stats(self, _rest: str) -> None:
        self._screen.line(told_of_all(self._all_counts))

    def _quit(self, _rest: str) -> None:
        self._left = True


def _path(text: str) -> Path:
    if not text:
        raise ChatError("which file?")
    return Path(text).expanduser()
