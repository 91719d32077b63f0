// OpenAI's Node SDK.

import OpenAI from "openai";
import { zodResponseFormat, zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

import { MODEL, all, assert, check, run } from "./checks.mjs";

const QUESTION = [{ role: "user", content: "What will the weather be in Lisbon?" }];
const BRIEF = { model: MODEL, messages: QUESTION, max_tokens: 24, temperature: 0 };
const Report = z.object({ city: z.enum(["Lisbon", "Porto"]), degrees: z.int().min(-20).max(50) });
const PARAMETERS = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city", "days"],
};

const clientOf = (url) => new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });

check("models", async ({ real }) => {
  const listed = await all(clientOf(real).models.list());
  assert(listed.some((model) => model.id === MODEL));
  assert.equal((await clientOf(real).models.retrieve(MODEL)).id, MODEL);
});

check("chat, whole and streamed", async ({ real }) => {
  const client = clientOf(real);
  const whole = await client.chat.completions.create(BRIEF);
  const options = { ...BRIEF, stream: true, stream_options: { include_usage: true } };
  const chunks = await all(await client.chat.completions.create(options));
  const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(chunks.at(-1).usage.completion_tokens, whole.usage.completion_tokens);
});

check("`.stream()`", async ({ real }) => {
  const final = await clientOf(real).chat.completions.stream(BRIEF).finalChatCompletion();
  assert(final.choices[0].message.content);
});

check("completions", async ({ real }) => {
  const wanted = { model: MODEL, prompt: "The tide", max_tokens: 8, temperature: 0 };
  const whole = await clientOf(real).completions.create(wanted);
  const chunks = await all(await clientOf(real).completions.create({ ...wanted, stream: true }));
  assert.equal(chunks.map((chunk) => chunk.choices[0].text).join(""), whole.choices[0].text);
});

check("`runTools`, whole and streamed", async ({ scripted }) => {
  for (const stream of [false, true]) {
    const asked = [];
    const forecast = (given) => {
      asked.push(given);
      return "sunny";
    };
    const tool = { type: "function", function: { name: "forecast", parameters: PARAMETERS, parse: JSON.parse, function: forecast } };
    const runner = clientOf(scripted).chat.completions.runTools({ model: MODEL, messages: QUESTION, tools: [tool], stream });
    assert.equal(await runner.finalContent(), "It will be sunny in Lisbon.");
    assert.deepEqual(asked, [{ city: "Lisbon", days: 3 }]);
  }
});

check("`.parse()`", async ({ real }) => {
  const wanted = { model: MODEL, messages: QUESTION, temperature: 0, response_format: zodResponseFormat(Report, "report") };
  const answer = await clientOf(real).chat.completions.parse(wanted);
  Report.parse(answer.choices[0].message.parsed);
});

check("embeddings", async ({ real }) => {
  const answer = await clientOf(real).embeddings.create({ model: MODEL, input: ["a tide", "a ship"] });
  assert.equal(answer.data.length, 2);
  assert.equal(typeof answer.data[0].embedding[0], "number");
});

check("responses, whole, streamed and parsed", async ({ real }) => {
  const client = clientOf(real);
  const wanted = { model: MODEL, input: "What is a tide?", max_output_tokens: 24, temperature: 0 };
  const whole = await client.responses.create(wanted);
  assert(whole.output_text);
  const events = await all(await client.responses.create({ ...wanted, stream: true }));
  const deltas = events.filter((event) => event.type === "response.output_text.delta");
  assert.equal(deltas.map((event) => event.delta).join(""), whole.output_text);
  assert.equal((await client.responses.retrieve(whole.id)).output_text ?? whole.output_text, whole.output_text);
  await client.responses.delete(whole.id);
  const parsed = await client.responses.parse({ ...wanted, max_output_tokens: 200, text: { format: zodTextFormat(Report, "report") } });
  Report.parse(parsed.output_parsed);
});

await run();
