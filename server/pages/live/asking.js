// One question to the server: its body, and the answer as it comes.

import { eventsOf } from "./sse.js";

/**
 * @typedef {{role: "user" | "assistant", content: string}} Message
 * @typedef {{temperature: number | null, maxTokens: number | null, seed: number | null, alternatives: boolean, prediction: string}} Wishes
 * @typedef {{token: string, logprob: number, bytes: number[], index: number, top_logprobs: {token: string, logprob: number}[]}} Scored
 * @typedef {{prompt_tokens: number, completion_tokens: number, prompt_tokens_details: {cached_tokens: number}, completion_tokens_details: {accepted_prediction_tokens: number, rejected_prediction_tokens: number}}} Usage
 * @typedef {object} Piece What one event adds to an answer.
 * @property {string} id
 * @property {string} text
 * @property {string} thought
 * @property {Scored[]} scored The tokens of the text, each with its `index` in all that the model wrote.
 * @property {number} tokens How many came, those without text among them.
 * @property {number | null} promptTokens Told once.
 * @property {string | null} finish
 * @property {Usage | null} usage
 */

const ALTERNATIVES = 5;

/** What the server said no with. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} message
   */
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/**
 * The body of a question. Scores and ids are always asked for, since they tell where one token ends and which it is; other
 * tokens' scores only on demand.
 * @param {string} model
 * @param {Message[]} messages
 * @param {Wishes} wishes
 */
export function bodyOf(model, messages, { temperature, maxTokens, seed, alternatives, prediction }) {
  return {
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
    logprobs: true,
    return_token_ids: true,
    ...(alternatives && { top_logprobs: ALTERNATIVES }),
    ...(temperature !== null && { temperature }),
    ...(maxTokens !== null && { max_completion_tokens: maxTokens }),
    ...(seed !== null && { seed }),
    ...(prediction && { prediction: { type: "content", content: prediction } }),
  };
}

/**
 * The answer to a body, piece by piece.
 * @param {object} body
 * @param {Record<string, string>} headers
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<Piece>}
 */
export async function* answerTo(body, headers, signal) {
  const response = await fetch("v1/chat/completions", {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  if (!response.ok || !response.body) throw await refusalOf(response);
  let ended = false;
  for await (const { data } of eventsOf(response.body)) {
    ended ||= data === "[DONE]";
    if (ended || !data) continue;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new Refused(response.status, chunk.error.message);
    yield pieceOf(chunk);
  }
  if (!ended) throw new Refused(0, "the connection broke before the answer ended");
}

/**
 * @param {any} chunk
 * @returns {Piece}
 */
export function pieceOf(chunk) {
  const choice = chunk.choices?.[0];
  return {
    id: chunk.id,
    text: choice?.delta?.content ?? "",
    thought: choice?.delta?.reasoning_content ?? "",
    scored: choice?.logprobs?.content ?? [],
    tokens: choice?.token_ids?.length ?? 0,
    promptTokens: chunk.prompt_token_ids?.length ?? null,
    finish: choice?.finish_reason ?? null,
    usage: chunk.usage ?? null,
  };
}

/** @param {Response} response */
async function refusalOf(response) {
  const body = await response.json().catch(() => null);
  const wait = response.headers.get("retry-after");
  const message = body?.error?.message ?? `the server answers ${response.status}`;
  return new Refused(response.status, wait ? `${message}; try again in ${wait} s` : message);
}
