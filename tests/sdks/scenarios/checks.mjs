// What a scenario of Node's clients is made of: as checks.py.

import { strict as assert } from "node:assert";

export const MODEL = "tidemark";
const MAX_TOLD = 600; // characters of an error
const claims = [];

export { assert };

// Add a function that throws unless the claim holds.
export function check(claim, tried) {
  claims.push([claim, tried]);
}

// Try all of them against the servers that the command line names.
export async function run() {
  const [real, scripted] = process.argv.slice(2);
  for (const [claim, tried] of claims) {
    let failure = null;
    try {
      await tried({ real, scripted });
    } catch (error) {
      console.error(error);
      failure = `${error.name}: ${error.message}`.slice(0, MAX_TOLD);
    }
    console.log(JSON.stringify({ claim, failure }));
  }
}

// All that an asynchronous iterator gives.
export async function all(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}
