// Tooltips for cells, column heads and marks, for mouse, touch and keyboard. Without scripts, these are
// `title` attributes, which only a mouse shows.
"use strict";

const notedBy = (target) => target.closest(".rows td, .rows th, .mark") ?? target.closest("[title], figure path");
const notes = new WeakMap();
const tip = makeElement("div", { id: "tip", hidden: true });
let tipped = null; // element whose tooltip is shown
let leaving = 0;

// Return the note of an element. Its `title` attributes are removed, so that the browser does not show
// them too.
function noteOf(element) {
  if (notes.has(element)) return notes.get(element);
  const said = [];
  for (const each of [element, ...element.querySelectorAll("[title], title")]) {
    const text = each.matches("title") ? each.textContent : each.getAttribute("title");
    if (text && !said.some((other) => other.includes(text))) said.push(text);
    if (each.matches("title")) each.remove();
    else if (text) each.removeAttribute("title");
  }
  const note = said.join("\n");
  notes.set(element, note);
  return note;
}

function headingOf(element) {
  const cell = element.closest(".rows tbody td.number");
  const name = cell?.closest("tr").querySelector(".name")?.textContent;
  const head = cell?.closest("table").tHead.rows[0].cells[cell.cellIndex].textContent.trim();
  return name ? `${name}, ${head}` : "";
}

function showTip(element) {
  clearTimeout(leaving);
  if (element === tipped) return;
  hideTip();
  const note = noteOf(element);
  if (!note) return;
  const text = element.closest(".rows tbody") ? note.replaceAll(/, (?=mean|from|\d+ seeds?)/g, "\n") : note;
  tip.replaceChildren(makeElement("b", { textContent: headingOf(element) }), makeElement("span", { textContent: text }));
  tip.hidden = false;
  tipped = element;
  const box = element.getBoundingClientRect();
  const { width, height } = tip.getBoundingClientRect();
  const middle = box.left + box.width / 2 - width / 2;
  tip.style.left = `${Math.max(6, Math.min(middle, document.documentElement.clientWidth - width - 6))}px`;
  tip.style.top = `${box.top > height + 12 ? box.top - height - 6 : box.bottom + 6}px`;
}

function hideTip() {
  tipped?.querySelector("[aria-describedby=tip]")?.removeAttribute("aria-describedby");
  tipped = null;
  tip.hidden = true;
}

tip.setAttribute("role", "tooltip");
document.body.append(tip);

document.addEventListener("pointerover", ({ target, pointerType }) => {
  if (pointerType === "touch") return;
  const noted = notedBy(target);
  if (noted) showTip(noted);
  else if (target.closest("#tip")) clearTimeout(leaving);
  else leaving = setTimeout(hideTip, 150);
});
document.addEventListener("focusin", ({ target }) => {
  const noted = notedBy(target);
  if (!noted || !target.matches(":focus-visible")) return hideTip();
  showTip(noted);
  if (tipped) target.setAttribute("aria-describedby", "tip");
});
document.addEventListener("keydown", ({ key }) => {
  if (key === "Escape") hideTip();
});
// The first touch shows the note, and the second follows the link.
document.addEventListener("click", (event) => {
  if (event.pointerType !== "touch") return;
  const noted = event.target.closest(".rows tbody td, .mark, abbr");
  if (noted && noted !== tipped && noteOf(noted)) {
    event.preventDefault();
    event.stopImmediatePropagation();
    showTip(noted);
  } else hideTip();
}, true);
addEventListener("scroll", hideTip, { passive: true });

// Arrow keys move between the cells of a table, including cells without a link.
const STEPS = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };

function followArrows(table) {
  table.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    const cell = event.target.closest("tbody td, tbody th");
    if (!step || !cell || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const rows = [...table.rows].filter((row) => row.id && row.checkVisibility());
    let row = cell.parentElement, column = cell.cellIndex, next = null;
    do {
      row = rows[rows.indexOf(row) + step[0]];
      column += step[1];
      next = row?.cells[column];
    } while (next && !next.checkVisibility());
    if (!next) return;
    const target = next.querySelector("a, input") ?? next;
    if (target === next) next.tabIndex = -1;
    target.focus({ focusVisible: true });
  });
}
