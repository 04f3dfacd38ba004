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

async function unpackEntry(entry) {
  const script = entry.querySelector(":scope > script");
  if (!script) return;
  const html = await unpack(script);
  if (!script.isConnected) return;
  script.previousElementSibling.remove();
  script.replaceWith(parseHtml(html));
}

// A link to a run, packed or not, opens it and all that it stands in.
async function openTarget(id) {
  const packed = document.querySelector(`[data-ids~="${CSS.escape(id)}"]`);
  if (packed) await unpackEntry(packed);
  const target = document.getElementById(id);
  for (let each = target; each; each = each.parentElement) {
    if (each instanceof HTMLDetailsElement) each.open = true;
  }
  if (target && packed) location.replace(`#${id}`); // now that it is there, the address can lead to it
}

function makeElement(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}
