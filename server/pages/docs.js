// Shows /openapi.json: endpoints, fields and answers, and examples that can be changed and run.
// Whatever comes from elsewhere becomes text, never markup. The key stays in its field.
"use strict";

const at = (parent, selector) => parent.querySelector(selector);
const MAX_DEPTH = 3; // of fields within fields that are shown
const description = {};

function headers(extra = {}) {
  const key = at(document, "#secret").value.trim();
  return key ? { ...extra, authorization: `Bearer ${key}` } : extra;
}

function element(tag, text = "", attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

function row(...cells) {
  const made = document.createElement("tr");
  cells.forEach((cell, index) => made.append(element("td", index < 2 ? "" : cell)));
  [0, 1].forEach((index) => made.children[index].append(element("code", cells[index])));
  return made;
}

// -- what schemas say, in a few words

function resolved(schema) {
  if (!schema || !schema.$ref) return schema || {};
  return description.components.schemas[schema.$ref.split("/").pop()] || {};
}

function typeOf(given) {
  const schema = resolved(given);
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = schema.anyOf || schema.oneOf;
  if (choices) return [...new Set(choices.map(typeOf))].filter((type) => type !== "null").join(" | ");
  if (schema.type === "array") return `[${schema.items ? typeOf(schema.items) : "any"}]`;
  return schema.type || "any";
}

function rangeOf(schema) {
  const said = [];
  for (const one of [schema, ...(schema.anyOf || [])]) {
    const { minimum, maximum, exclusiveMinimum, minLength, maxLength, minItems, maxItems } = one;
    if (exclusiveMinimum !== undefined) said.push(`above ${exclusiveMinimum}`);
    if (minimum !== undefined && Math.abs(minimum) <= Number.MAX_SAFE_INTEGER) said.push(`from ${minimum}`);
    if (maximum !== undefined) said.push(`to ${maximum}`);
    if (minLength !== undefined || maxLength !== undefined) said.push(`${minLength || 0} to ${maxLength ?? "any number of"} characters`);
    if (minItems !== undefined || maxItems !== undefined) said.push(`${minItems || 0} to ${maxItems ?? "any number of"} entries`);
  }
  return said.join(" ");
}

// The objects within a field, each with what stands behind the field's name: messages[].role.
function within(given) {
  const schema = resolved(given);
  const choices = (schema.anyOf || schema.oneOf || []).flatMap(within);
  const entries = schema.items ? within(schema.items).map(([path, inner]) => [`[]${path}`, inner]) : [];
  return [...(schema.properties ? [["", schema]] : []), ...choices, ...entries];
}

function showFields(table, schema, prefix = "", depth = 0) {
  const required = new Set(schema.required || []);
  const fields = Object.entries(schema.properties || {});
  fields.sort(([one], [other]) => required.has(other) - required.has(one));
  for (const [name, field] of fields) {
    const notes = [required.has(name) ? "required" : "", rangeOf(field), field.description || ""];
    table.append(row(prefix + name, typeOf(field), notes.filter(Boolean).join("; ")));
    if (depth === MAX_DEPTH) continue;
    for (const [path, inner] of within(field)) showFields(table, inner, `${prefix}${name}${path}.`, depth + 1);
  }
}

function showAnswers(section, responses) {
  for (const [status, answer] of Object.entries(responses)) {
    at(section, ".answers tbody").append(row(status, Object.keys(answer.content || {}).join(", "), answer.description));
  }
}

// -- what can be run

function target(section, path) {
  let filled = path;
  const query = new URLSearchParams();
  for (const { name, value } of section.querySelectorAll(".parameters input")) {
    if (!filled.includes(`{${name}}`)) value && query.set(name, value);
    filled = filled.replace(`{${name}}`, encodeURIComponent(value).replaceAll("%2F", "/"));
  }
  return new URL(query.size ? `${filled.slice(1)}?${query}` : filled.slice(1), document.baseURI).href;
}

function quoted(text) {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

function showCurl(section, method, path, takesBody) {
  const parts = [`curl -N ${quoted(target(section, path))}`];
  if (method !== "get") parts.push(`-X ${method.toUpperCase()}`);
  if (at(document, "#secret").value.trim()) parts.push(`-H "Authorization: Bearer $KEY"`);
  if (takesBody) parts.push("-H 'Content-Type: application/json'", `-d ${quoted(at(section, "textarea").value)}`);
  at(section, ".curl").textContent = parts.join(" \\\n  ");
}

async function readInto(shown, response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    text += part.value;
    shown.textContent = `${response.status}\n${text}`;
  }
  if ((response.headers.get("content-type") || "").startsWith("application/json")) {
    shown.textContent = `${response.status}\n${JSON.stringify(JSON.parse(text), null, 2)}`;
  }
}

async function run(section, method, path, takesBody) {
  const shown = at(section, ".answer");
  const stop = at(section, ".stop");
  const leaving = new AbortController();
  const body = takesBody ? at(section, "textarea").value : undefined;
  stop.onclick = () => leaving.abort();
  shown.hidden = stop.hidden = false;
  shown.textContent = "";
  try {
    const options = { method: method.toUpperCase(), body, signal: leaving.signal };
    const response = await fetch(target(section, path), { ...options, headers: headers(takesBody ? { "content-type": "application/json" } : {}) });
    shown.classList.toggle("failed", !response.ok);
    await readInto(shown, response);
  } catch (error) {
    shown.classList.add("failed");
    shown.textContent += leaving.signal.aborted ? "\nstopped" : `\n${error.message}`;
  } finally {
    stop.hidden = true;
  }
}

function prepare(section, method, path, operation) {
  const content = operation.requestBody?.content["application/json"];
  const examples = Object.values(content?.examples || {});
  const select = at(section, "select");
  const text = at(section, "textarea");
  const curl = () => showCurl(section, method, path, Boolean(content));
  for (const parameter of (operation.parameters || []).filter((one) => ["path", "query"].includes(one.in))) {
    const label = element("label", `${parameter.name} `);
    label.append(element("input", "", { name: parameter.name, value: parameter.example ?? "" }));
    at(section, ".parameters").append(label);
  }
  examples.forEach((example, index) => select.append(element("option", example.summary, { value: index })));
  const choose = () => {
    text.value = JSON.stringify(examples[select.value]?.value ?? {}, null, 2);
    curl();
  };
  at(section, ".examples").hidden = examples.length === 0;
  text.hidden = at(section, ".body").hidden = !content;
  select.onchange = choose;
  section.oninput = curl;
  at(section, ".run").onclick = () => run(section, method, path, Boolean(content));
  choose();
}

// -- the page

function show(method, path, operation) {
  const section = at(document, "#endpoint").content.cloneNode(true).firstElementChild;
  section.id = `${method}${path}`;
  at(section, ".method").textContent = method.toUpperCase();
  at(section, ".path").textContent = path;
  at(section, ".summary").textContent = operation.description || operation.summary || "";
  const schema = operation.requestBody?.content["application/json"]?.schema;
  if (schema) showFields(at(section, ".body tbody"), resolved(schema));
  showAnswers(section, operation.responses);
  prepare(section, method, path, operation);
  at(document, "#endpoints").append(section);
  at(document, "#contents").append(element("a", `${method.toUpperCase()} ${path}`, { href: `#${section.id}` }));
}

async function load() {
  const status = at(document, "#status");
  const response = await fetch("openapi.json", { headers: headers() });
  if (!response.ok) {
    status.textContent = response.status === 401 ? "This server asks for a key." : `The description could not be read: ${response.status}.`;
    return;
  }
  Object.assign(description, await response.json());
  status.textContent = "";
  at(document, "#version").textContent = description.info.version;
  at(document, "#endpoints").replaceChildren();
  at(document, "#contents").replaceChildren();
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(operations)) show(method, path, operation);
  }
}

function refuse(error) {
  at(document, "#status").textContent = `The description could not be read: ${error.message}`;
}

at(document, "#key").addEventListener("submit", (event) => {
  event.preventDefault();
  load().catch(refuse);
});
load().catch(refuse);
