// Selection of the score that is plotted against cost, highlighting of a model in all plots of a
// leaderboard, and saving of plots as images. Without scripts, all figures are shown.
"use strict";

for (const section of document.querySelectorAll("section.plots")) {
  chooseAxes(section);
  pointOut(section);
  section.querySelectorAll(".spreads").forEach((fold) => {
    fold.addEventListener("toggle", () => unpackInside(section, fold));
  });
  section.addEventListener("click", (event) => {
    const mark = event.target.closest(".mark[data-href]");
    if (mark) location.href = mark.dataset.href;
  });
  addSaving(section);
  section.addEventListener("unpacked", () => addSaving(section));
}

// Move the figures of all scores out of their fold, and show only those of the selected score.
function chooseAxes(section) {
  const part = section.querySelector(".tradeoffs");
  if (!part) return;
  const fold = part.querySelector(".others");
  if (fold) fold.replaceWith(...fold.querySelectorAll(":scope > .choice"));
  const views = [...part.querySelectorAll(".choice")];
  const score = part.querySelector(".pick-score");
  score.replaceChildren(...views.map((view) => new Option(view.dataset.choice)));
  part.querySelector(".pickers").hidden = views.length < 2;
  const show = () => {
    const view = views[score.selectedIndex];
    views.forEach((other) => { other.hidden = other !== view; });
    return unpackInside(section, view);
  };
  score.addEventListener("change", show);
  show();
}

// Unpack the compressed plots of a long leaderboard when they are opened.
async function unpackInside(section, element) {
  const script = element.querySelector(":scope > script");
  if (!script) return;
  const html = await unpack(script);
  if (!script.isConnected) return;
  script.previousElementSibling.remove();
  script.replaceWith(parseHtml(html));
  section.dispatchEvent(new Event("unpacked"));
}

// Highlight the model under the pointer or, if there is none, the selected model.
function pointOut(section) {
  const picker = section.querySelector(".pick-entry");
  picker.closest(".pickers").hidden = picker.options.length < 3;
  const light = (entry) => {
    section.classList.toggle("pointing", Boolean(entry));
    section.querySelectorAll(".lit").forEach((mark) => mark.classList.remove("lit"));
    if (!entry) return;
    for (const mark of section.querySelectorAll(`.mark[data-entry="${CSS.escape(entry)}"]`)) {
      mark.classList.add("lit");
    }
  };
  const picked = () => picker.selectedOptions[0]?.dataset.entry;
  picker.addEventListener("change", () => light(picked()));
  section.addEventListener("unpacked", () => light(picked()));
  section.addEventListener("pointerover", (event) => {
    const mark = event.target.closest(".mark[data-entry]");
    light(mark ? mark.dataset.entry : picked());
  });
  section.addEventListener("pointerleave", () => light(picked()));
}

// Properties that are copied to attributes when a plot is saved, because the file has no style sheet.
const LOOKS = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
  "opacity", "paint-order", "visibility", "font-family", "font-size", "font-weight", "text-anchor",
];

function addSaving(section) {
  for (const figure of section.querySelectorAll("figure.plot:not(:has(.save))")) {
    const title = figure.querySelector("figcaption b").textContent;
    const buttons = ["SVG", "PNG"].map((kind) => {
      const button = makeElement("button", { type: "button", textContent: kind, ariaLabel: `save ${title} as ${kind}` });
      button.addEventListener("click", () => saveFigure(figure, title, kind));
      return button;
    });
    figure.append(makeElement("p", { className: "save" }, ...buttons));
  }
}

function pictureOf(svg) {
  const copy = svg.cloneNode(true);
  const copied = [copy, ...copy.querySelectorAll("*")];
  [svg, ...svg.querySelectorAll("*")].forEach((element, place) => {
    const looks = getComputedStyle(element);
    for (const name of LOOKS) copied[place].setAttribute(name, looks.getPropertyValue(name));
  });
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const ground = document.createElementNS("http://www.w3.org/2000/svg", "path");
  ground.setAttribute("d", `M-12,-12H${width + 12}V${height + 12}H-12z`);
  ground.setAttribute("fill", getComputedStyle(document.body).backgroundColor);
  copy.prepend(ground);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `-12 -12 ${width + 24} ${height + 24}`);
  copy.setAttribute("width", width + 24);
  copy.setAttribute("height", height + 24);
  return copy;
}

async function saveFigure(figure, title, kind) {
  const picture = pictureOf(figure.querySelector("svg.chart"));
  const text = new XMLSerializer().serializeToString(picture);
  let blob = new Blob([text], { type: "image/svg+xml" });
  if (kind === "PNG") {
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = makeElement("canvas", { width: 3 * image.width, height: 3 * image.height });
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    blob = await new Promise((done) => { canvas.toBlob(done); });
  }
  const href = URL.createObjectURL(blob);
  makeElement("a", { href, download: `${title}.${kind.toLowerCase()}` }).click();
  setTimeout(() => URL.revokeObjectURL(href), 60000);
}
