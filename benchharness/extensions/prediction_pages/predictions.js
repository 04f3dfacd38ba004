// Script of the predictions page: filters and sorts the examples, and stores the view in the URL.
"use strict";

const STEP = 20; // number of examples that are shown first, and that each "more" adds
const NEAR = 200; // a linked example is shown in the list if fewer examples come before it
const list = document.querySelector(".examples");
const tools = document.querySelector(".tools");
const controls = {
  words: tools.querySelector("input"),
  show: tools.querySelector(".show"),
  split: tools.querySelector(".split"),
  order: tools.querySelector(".order"),
};
const uncell = tools.querySelector(".uncell");
let records = [];
let cell = "";
let limit = STEP;

function textOf(record) {
  record.text ??= record.html.replace(/<[^>]*>/g, "").toLowerCase();
  return record.text;
}

function matches() {
  const words = controls.words.value.toLowerCase().split(/\s+/).filter(Boolean).map(escaped);
  const show = controls.show?.value ?? "";
  const split = controls.split?.value ?? "";
  const found = records.filter(
    (record) =>
      (show === "" || record.state === show || String(record.flip) === show) &&
      (split === "" || String(record.split) === split) &&
      (cell === "" || record.cells.includes(cell)) &&
      words.every((word) => textOf(record).includes(word)),
  );
  const order = controls.order.value;
  return found.sort((a, b) => a[order] - b[order]);
}

// Escape a word like the HTML in which it is searched.
function escaped(word) {
  return word.replace(/&/g, "&amp;").replace(/[<]/g, "&lt;").replace(/[>]/g, "&gt;");
}

function draw() {
  const found = matches();
  const shown = found.slice(0, limit);
  list.replaceChildren(...shown.map(elementOf));
  const left = found.length - shown.length;
  putMore(left ? moreButton(left) : null);
  const said = `${found.length.toLocaleString("en")} of ${records.length.toLocaleString("en")} examples match`;
  tools.parentElement.querySelector(".count").textContent = found.length < records.length ? said : "";
}

function elementOf(record) {
  record.element ??= parseHtml(record.html).querySelector("li");
  return record.element;
}

function moreButton(left) {
  const text = `Show ${Math.min(STEP, left)} more of ${left.toLocaleString("en")}`;
  const button = makeElement("button", { type: "button", textContent: text });
  button.addEventListener("click", () => {
    const first = limit;
    limit += STEP;
    draw();
    list.children[first]?.querySelector("a").focus();
  });
  return button;
}

function putMore(button) {
  tools.parentElement.querySelector(".more")?.remove();
  if (button) list.after(makeElement("p", { className: "more" }, button));
}

function redraw() {
  limit = STEP;
  remember();
  draw();
}

// Turn the cells of confusion matrices into buttons that show their examples.
function addMatrices() {
  for (const place of document.querySelectorAll("td[data-cell]")) {
    if (place.textContent === "0") continue;
    const button = makeElement("button", { type: "button", textContent: place.textContent });
    button.setAttribute("aria-label", `${place.textContent}, ${nameOf(place)}: show its examples`);
    button.addEventListener("click", () => {
      cell = place.dataset.cell;
      redraw();
      document.querySelector("#examples").scrollIntoView();
      document.querySelector("#examples").focus({ preventScroll: true });
    });
    place.replaceChildren(button);
  }
  uncell.addEventListener("click", () => {
    cell = "";
    redraw();
    controls.words.focus();
  });
}

function nameOf(place) {
  const heads = place.closest("table").tHead.rows[0].cells;
  const row = place.parentElement.cells[0].textContent;
  return `gold ${row}, predicted ${heads[place.cellIndex].textContent}`;
}

function remember() {
  const place = cell && document.querySelector(`td[data-cell="${CSS.escape(cell)}"]`);
  uncell.hidden = !place;
  if (place) uncell.textContent = `${nameOf(place)} ×`;
  const state = new URLSearchParams();
  for (const [name, control] of Object.entries(controls)) {
    if (control?.value && !(name === "order" && control.value === "rank")) state.set(name, control.value);
  }
  if (cell) state.set("cell", cell);
  const here = location.href.split("#")[0];
  history.replaceState(null, "", state.size ? `${here}#${state}` : here);
}

function followAddress() {
  const asked = /^#example-(\d+)$/.exec(location.hash);
  if (asked) {
    showExample(Number(asked[1]));
    return;
  }
  const state = new URLSearchParams(location.hash.slice(1));
  for (const [name, control] of Object.entries(controls)) {
    if (control && state.has(name)) control.value = state.get(name);
    if (control && control.selectedIndex === -1) control.selectedIndex = 0;
  }
  cell = document.querySelector(`td[data-cell="${CSS.escape(state.get("cell") ?? "")}"]`) ? state.get("cell") : "";
  limit = STEP;
  if (state.size) remember();
  draw();
}

// Show the example with this number: in the list if few examples come before it, else alone.
function showExample(number) {
  const at = matches().findIndex(({ place }) => place === number);
  const record = records.find(({ place }) => place === number);
  if (record && (at < 0 || at >= NEAR)) {
    list.replaceChildren(elementOf(record));
    const button = makeElement("button", { type: "button", textContent: "Show the others" });
    button.addEventListener("click", redraw);
    putMore(button);
  } else {
    limit = Math.max(limit, Math.ceil((at + 1) / STEP) * STEP);
    draw();
  }
  document.getElementById(`example-${number}`)?.scrollIntoView();
}

async function start() {
  const script = document.querySelector(".packed-examples");
  records = JSON.parse(await unpack(script));
  script.remove();
  addMatrices();
  for (const control of Object.values(controls)) control?.addEventListener("input", redraw);
  const theme = document.querySelector(".theme");
  theme.hidden = false;
  theme.addEventListener("change", () => {
    document.documentElement.dataset.theme = theme.querySelector("select").value;
  });
  tools.hidden = false;
  followAddress();
  addEventListener("hashchange", followAddress);
  performance.mark("ready");
}

start();
