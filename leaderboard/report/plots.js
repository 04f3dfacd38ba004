// Choosing the axes of plots against cost, and pointing one model out in all plots of a board.
// Without scripts every figure stands in the page.
"use strict";

for (const section of document.querySelectorAll("section.plots")) {
  chooseAxes(section);
  pointOut(section);
  section.querySelectorAll(".spreads").forEach((fold) => {
    fold.addEventListener("toggle", () => unpackInside(section, fold));
  });
  section.addEventListener("click", (event) => {
    const mark = event.target.closest(".mark[data-href]");
    if (mark) location.hash = mark.dataset.href;
  });
}

// All scores move out of their fold, and one figure is shown at a time.
function chooseAxes(section) {
  const part = section.querySelector(".tradeoffs");
  if (!part) return;
  const fold = part.querySelector(".others");
  if (fold) fold.replaceWith(...fold.querySelectorAll(":scope > .choice"));
  const views = [...part.querySelectorAll(".choice")];
  const score = part.querySelector(".pick-score");
  const cost = part.querySelector(".pick-cost");
  fill(score, views);
  score.parentElement.hidden = views.length < 2;
  part.querySelector(".pickers").hidden = false;
  const show = async () => {
    const view = views[score.selectedIndex];
    await unpackInside(section, view);
    if (view !== views[score.selectedIndex]) return; // another one was chosen meanwhile
    const chosen = cost.value;
    const figures = [...view.querySelectorAll("figure")];
    fill(cost, figures);
    const place = figures.findIndex((figure) => figure.dataset.choice === chosen);
    cost.selectedIndex = Math.max(place, 0);
    views.forEach((other) => { other.hidden = other !== view; });
    figures.forEach((figure, number) => { figure.hidden = number !== cost.selectedIndex; });
  };
  score.addEventListener("change", show);
  cost.addEventListener("change", show);
  show();
}

// Of long boards the plots are packed until they are looked at.
async function unpackInside(section, element) {
  const script = element.querySelector(":scope > script");
  if (!script) return;
  const html = await unpack(script);
  if (!script.isConnected) return;
  script.previousElementSibling.remove();
  script.replaceWith(parseHtml(html));
  section.dispatchEvent(new Event("unpacked"));
}

function fill(select, elements) {
  select.replaceChildren(...elements.map((each) => new Option(each.dataset.choice)));
}

// The chosen model stays lit; the one under the pointer is lit meanwhile.
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
  picker.addEventListener("change", () => light(picker.value));
  section.addEventListener("unpacked", () => light(picker.value));
  section.addEventListener("pointerover", (event) => {
    const mark = event.target.closest(".mark[data-entry]");
    light(mark ? mark.dataset.entry : picker.value);
  });
  section.addEventListener("pointerleave", () => light(picker.value));
}
