// What the page carries packed: rows of long tables, sections of many runs. HTML from here on is
// the report's own, escaped when it was written; nothing else may become elements (Trusted Types).
"use strict";

const ourHtml = globalThis.trustedTypes?.createPolicy("report", { createHTML: (html) => html });

async function unpack(script) {
  const letters = atob(script.textContent.trim());
  const bytes = new Uint8Array(letters.length);
  for (let i = 0; i < letters.length; i += 1) bytes[i] = letters.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

function parseHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = ourHtml ? ourHtml.createHTML(html) : html;
  return template.content;
}

async function unpackRuns(holder) {
  const html = await unpack(holder.querySelector("script"));
  if (holder.isConnected) holder.replaceWith(parseHtml(html));
}

function offerPackedRuns(holder) {
  const button = makeElement("button", { type: "button", textContent: "Show them" });
  button.addEventListener("click", () => unpackRuns(holder));
  holder.querySelector("p").append(" ", button);
}

// A link to a run, packed or not, opens it.
async function openTarget(id) {
  const holder = document.querySelector(`[data-ids~="${CSS.escape(id)}"]`);
  if (holder) await unpackRuns(holder);
  const target = document.getElementById(id);
  if (target instanceof HTMLDetailsElement) target.open = true;
  if (holder) location.replace(`#${id}`); // now that it is there, the address can lead to it
}

function makeElement(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}
