"""Recall: what a conversation of the Responses API is made of, kept and given."""

from collections.abc import Sequence
from dataclasses import dataclass

from server.errors import ApiError
from server.items import kept_items, references
from server.rules import wrong
from server.store import Store
from server.wire.response_bodies import ItemBody
from server.wire.responses import ConversationFields


@dataclass(frozen=True, slots=True)
class Recalled:
    """What came before, and what the client put in now."""

    before: Sequence[ItemBody]
    given: list[ItemBody]

    @property
    def items(self) -> list[ItemBody]:
        """All of it."""
        return [*self.before, *self.given]


async def recall(body: ConversationFields, store: Store, *, owner: str) -> Recalled:
    """The items of a body and of the responses before it, which are the owner's."""
    before = await _before(body.previous_response_id, store, owner)
    found = await store.items(references(body.input), owner=owner)

    def find(id: str) -> ItemBody:
        if id not in found:
            raise ApiError(404, "input: names an item that is not kept", code="item_not_found", param="input")
        return found[id]

    return Recalled(before, kept_items(body.input, find=find))


async def _before(id: str | None, store: Store, owner: str) -> list[ItemBody]:
    if id is None:
        return []
    responses = await store.conversation(id, owner=owner)
    if responses is None:
        message = "previous_response_id: this response, or one before it, is not kept"
        raise ApiError(404, message, code="previous_response_not_found", param="previous_response_id")
    if not responses[-1].finished:
        raise wrong("previous_response_id", "names a response that is not finished yet")
    return [item for response in responses for item in response.items]
