"""Text completions."""

from fastapi import APIRouter
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from engine.request import Grammar
from server import deliver
from server.asking import asking
from server.openapi import ERRORS, body_of, resumable, streamed
from server.prompt import completion_prompts, predicted_tokens
from server.recorder import Endpoint
from server.render.completions import Completions, echo_of
from server.render.reply import new_id, reply_of
from server.requests import Wanted, most_scores, requests_of
from server.rules import check_completion, check_num_prompts
from server.structure import grammar_of, settled
from server.wire.completions import Completion, CompletionRequest
from server.wire.status import ErrorEnvelope

DEFAULT_MAX_TOKENS = 16  # OpenAI's

router = APIRouter(tags=["generate"])
EVENT = TypeAdapter[Completion | ErrorEnvelope](Completion | ErrorEnvelope)


@router.post(
    "/completions",
    response_model=Completion,
    responses=streamed(EVENT, ends_with="[DONE]") | ERRORS,
    openapi_extra=resumable(body_of(CompletionRequest)),
)
async def create_completion(request: Request) -> Response:
    """Continue one text or several, whole or as a stream of events."""
    if (rest := deliver.rest(request, Endpoint.COMPLETIONS)) is not None:
        return rest
    async with asking(request, Endpoint.COMPLETIONS, CompletionRequest) as (service, account, body, loaded):
        check_completion(body)
        structure = grammar_of(body, loaded.dialect.tokens)
        check_num_prompts(body, most=service.settings.engine.max_waiting)
        context = loaded.engine.info.context_length
        prompts = await completion_prompts(loaded.tokenizer, body, context=context)
        prediction = await predicted_tokens(loaded.tokenizer, body.prediction, context=context)

        grammar = await settled(loaded.engine, structure)

        wanted = _wanted(body, prediction, grammar, structure.shown if structure else frozenset())
        id = new_id("cmpl")
        asked = requests_of(id, body, prompts, wanted, eos_ids=loaded.tokenizer.eos_ids)
        reply = reply_of(
            id,
            body,
            loaded,
            created=service.now(),
            top_logprobs=body.logprobs,
            shown_special_ids=wanted.shown_special_ids,
        )
        echoes = [echo_of(one, reply.vocabulary, skip_special=reply.skip_special) for one in prompts if body.echo]
        answer = Completions(reply, prompts, echoes)

        streams = deliver.start(loaded.engine, asked, account, param="prompt")
        return await deliver.answered(request, streams, answer, account, streamed=body.stream)


def _wanted(
    body: CompletionRequest, prediction: tuple[int, ...], grammar: Grammar | None, shown: frozenset[int]
) -> Wanted:
    return Wanted(
        prediction=prediction,
        grammar=grammar,
        shown_special_ids=shown,
        max_tokens=DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens,
        top_logprobs=body.logprobs,
        prompt_logprobs=most_scores(body.logprobs if body.echo else None, body.prompt_logprobs),
    )
