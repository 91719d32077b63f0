"""Talk: a conversation, and how it is asked: what a question's body is made of, and what a file keeps."""

import json
from dataclasses import dataclass, field
from pathlib import Path

from server.terminal.client import ChatError, Json
from server.terminal.settings import SETTINGS, UNSET, read_setting


@dataclass(slots=True)
class Talk:
    """A conversation with one model. `messages` are the user's and the assistant's, in turn."""

    model: str
    system: str = ""
    settings: Json = field(default_factory=dict)
    messages: list[dict[str, str]] = field(default_factory=list)

    def body(self, *, guess: str = "") -> Json:
        """What is asked of the server. A guess at the answer makes a right one fast, and changes nothing else."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        body = {
            "model": self.model,
            "messages": [*system, *self.messages],
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.settings,
        }
        return body | ({"prediction": {"type": "content", "content": guess}} if guess else {})

    def ask(self, question: str) -> None:
        """The user's turn."""
        self.messages.append({"role": "user", "content": question})

    def answered(self, answer: str) -> None:
        """The assistant's turn, whole or as far as it came. One that never began takes its question along."""
        if answer:
            self.messages.append({"role": "assistant", "content": answer})
        else:
            self.messages.pop()

    def take_back(self) -> tuple[str, str] | None:
        """The last question and its answer, which are then no part of the conversation."""
        if not self.messages:
            return None
        answer = self.messages.pop()["content"]
        return self.messages.pop()["content"], answer

    def setting(self, name: str) -> str:
        """One setting, as it is spelled.

        Raises:
            ChatError: there is no such setting.
        """
        _check_known(name)
        return str(self.settings.get(name, UNSET))

    def set(self, name: str, text: str) -> None:
        """Change one setting; `none` takes it back.

        Raises:
            ChatError: there is no such setting, or the text is no value of it.
        """
        _check_known(name)
        try:
            value = read_setting(name, text)
        except ValueError as error:
            raise ChatError(f"{name} {error}") from None
        if value is None:
            self.settings.pop(name, None)
        else:
            self.settings[name] = value

    def save(self, path: Path) -> None:
        """Write everything but the model to a file.

        Raises:
            ChatError: it can't be written.
        """
        kept = {"system": self.system, "settings": self.settings, "messages": self.messages}
        try:
            path.write_text(json.dumps(kept, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ChatError(f"{path} can't be written: {error.strerror}") from None

    def load(self, path: Path) -> None:
        """Take up what was saved, in place of what is here.

        Raises:
            ChatError: the file can't be read, or is no conversation.
        """
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            messages = [{"role": str(one["role"]), "content": str(one["content"])} for one in kept["messages"]]
            system, settings = str(kept["system"]), dict(kept["settings"])
        except OSError as error:
            raise ChatError(f"{path} can't be read: {error.strerror}") from None
        except (ValueError, KeyError, TypeError):
            raise ChatError(f"{path} holds no conversation that was saved here") from None
        if [one["role"] for one in messages] != ["user", "assistant"] * (len(messages) // 2):
            raise ChatError(f"{path} holds no conversation that was saved here")
        self.system, self.settings, self.messages = system, settings, messages


def _check_known(name: str) -> None:
    if name not in SETTINGS:
        raise ChatError(f"there is no setting {name!r}; there are {', '.join(SETTINGS)}")
