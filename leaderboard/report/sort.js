// Sorting and filtering. Without scripts the tables stand as they are, best first.
"use strict";

for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(body, heads, column));
  });
}

function sortBy(body, heads, column) {
  const head = heads[column];
  const first = head.dataset.order === "up" ? "ascending" : "descending";
  const other = first === "ascending" ? "descending" : "ascending";
  const order = head.getAttribute("aria-sort") === first ? other : first;
  heads.forEach((each) => each.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => [valueOf(row.cells[column]), row]);
  rows.sort(([a], [b]) => compare(a, b, sign));
  body.append(...rows.map(([, row]) => row));
}

// A number, a text, or null for an empty cell, which stands last in either order.
function valueOf(cell) {
  const value = cell.dataset.value;
  if (value === undefined) return cell.textContent.trim();
  return value === "" ? null : Number(value);
}

function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
}

for (const board of document.querySelectorAll("section.board")) {
  const label = board.querySelector(".filter");
  const rows = [...board.querySelectorAll(".sortable tbody tr")];
  const published = [...board.querySelectorAll(".references tbody tr")];
  const count = board.querySelector(".count");
  label.hidden = rows.length + published.length < 2;
  label.querySelector("input").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of [...rows, ...published]) {
      const text = row.querySelector("th").textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    count.textContent = words.length ? `${left} of ${rows.length} shown` : "";
  });
}

// A link to a run opens it.
function openTarget() {
  const target = document.getElementById(location.hash.slice(1));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
addEventListener("hashchange", openTarget);
openTarget();
