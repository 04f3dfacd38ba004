// Unpacking of compressed parts of the page: rows of long tables, and sections of many runs. Their HTML
// was escaped when the report was written. Trusted Types ensure that only this HTML becomes elements.
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

// Open the target of a link and all folds that contain it; unpack it first if it is compressed.
async function openTarget(id) {
  const packed = document.querySelector(`[data-ids~="${CSS.escape(id)}"]`);
  if (packed) await unpackEntry(packed);
  const target = document.getElementById(id);
  for (let each = target; each; each = each.parentElement) {
    if (each instanceof HTMLDetailsElement) each.open = true;
  }
  if (target && packed) location.replace(`#${id}`); // scroll to it, now that it exists
}

function makeElement(name, properties = {}, ...children) {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
}
