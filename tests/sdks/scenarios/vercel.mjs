// Vercel's AI SDK, by its provider for servers of OpenAI's kind and by OpenAI's own.

import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { Output, embedMany, generateText, isStepCount, streamText, tool } from "ai";
import { z } from "zod";

import { MODEL, all, assert, check, run } from "./checks.mjs";

const QUESTION = "What will the weather be in Lisbon?";
const Report = z.object({ city: z.enum(["Lisbon", "Porto"]), degrees: z.int().min(-20).max(50) });
const COMMON = { maxRetries: 0, temperature: 0, prompt: QUESTION };

const compatible = (url) =>
  createOpenAICompatible({ name: "tidemark", baseURL: `${url}/v1`, apiKey: "none", supportsStructuredOutputs: true });
const openai = (url) => createOpenAI({ baseURL: `${url}/v1`, apiKey: "none" });

async function looped(model) {
  for (const ask of [generateText, streamText]) {
    const asked = [];
    const forecast = tool({
      description: "Tell the weather of some days.",
      inputSchema: z.object({ city: z.string(), days: z.number() }),
      execute: async (given) => {
        asked.push(given);
        return "sunny";
      },
    });
    const answer = await ask({ ...COMMON, model, tools: { forecast }, stopWhen: isStepCount(3) });
    assert.equal(await answer.text, "It will be sunny in Lisbon.");
    assert.deepEqual(asked, [{ city: "Lisbon", days: 3 }]);
  }
}

async function reported(model) {
  const { output } = await generateText({ ...COMMON, model, output: Output.object({ schema: Report }) });
  Report.parse(output);
}

check("`generateText` and `streamText`", async ({ real }) => {
  const wanted = { ...COMMON, model: compatible(real).chatModel(MODEL), maxOutputTokens: 24 };
  const whole = await generateText(wanted);
  const streamed = streamText(wanted);
  assert.equal((await all(streamed.textStream)).join(""), whole.text);
  assert(whole.usage.outputTokens > 0);
});

check("a tool loop", ({ scripted }) => looped(compatible(scripted).chatModel(MODEL)));

check("a structured answer", ({ real }) => reported(compatible(real).chatModel(MODEL)));

check("OpenAI's provider: chat", async ({ real, scripted }) => {
  await looped(openai(scripted).chat(MODEL));
  await reported(openai(real).chat(MODEL));
});

check("OpenAI's provider: Responses", async ({ real, scripted }) => {
  await looped(openai(scripted).responses(MODEL));
  await reported(openai(real).responses(MODEL));
});

check("embeddings", async ({ real }) => {
  const { embeddings } = await embedMany({ model: compatible(real).embeddingModel(MODEL), values: ["a tide", "a ship"] });
  assert.equal(embeddings.length, 2);
});

await run();
