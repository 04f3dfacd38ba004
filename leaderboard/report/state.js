// Storage of the view (order, filters, columns, kinds, plots, comparison, colours) in the fragment of
// the URL, so that a view can be bookmarked or sent together with the file.
"use strict";

// Yield each part of the page that has named controls, with a prefix for the names in the URL: the
// filter of the second leaderboard is "2.find".
function* partsOf(boards) {
  yield ["", document.querySelector(".top")];
  for (const [place, { section }] of boards.entries()) {
    yield [`${place + 1}.`, section];
    const plots = document.getElementById(`board-${place + 1}-plots`)?.closest(".plots");
    if (plots) yield [`${place + 1}.`, plots];
  }
}

const isBox = (control) => control.type === "checkbox";

// Return the values of controls that differ from the default: the values of checkboxes that are not
// checked, selected options other than the first, and the texts of input fields.
function readControls(part) {
  const found = new Map();
  for (const control of part.querySelectorAll("[name]")) {
    const off = isBox(control) ? !control.checked : control.selectedIndex !== 0 && control.value;
    if (off) found.set(control.name, [...(found.get(control.name) ?? []), control.value]);
  }
  return found;
}

let following = false;

function remember() {
  if (following) return;
  const words = new URLSearchParams();
  const ids = [...chosen.keys()].map((id) => id.replace("row-", ""));
  if (ids.length) words.set("compare", ids.join(","));
  for (const [prefix, part] of partsOf(boards)) {
    for (const [name, values] of readControls(part)) values.forEach((value) => words.append(prefix + name, value));
  }
  for (const [place, board] of boards.entries()) {
    if (board.order) words.set(`${place + 1}.sort`, `${board.order} ${board.heads[board.column].textContent.trim()}`);
    const turned = board.groups.filter(({ open, first }) => open !== first);
    turned.forEach(({ body }) => words.append(`${place + 1}.fold`, body.id));
  }
  const text = words.toString().replaceAll("%2C", ",");
  const here = location.href.split("#")[0];
  history.replaceState(null, "", text ? `${here}#${text}` : here);
}

function recall(words) {
  following = true;
  for (const [prefix, part] of partsOf(boards)) {
    for (const control of part.querySelectorAll("[name]")) {
      const values = words.getAll(prefix + control.name);
      if (isBox(control)) control.checked = !values.includes(control.value);
      else if (values.length || control.value) control.value = values[0] ?? "";
      if (control.selectedIndex === -1) control.selectedIndex = 0;
    }
    for (const control of part.querySelectorAll(".pickers [name], .theme [name], [name=find]")) {
      control.dispatchEvent(new Event(control.matches("select") ? "change" : "input", { bubbles: true }));
    }
  }
  for (const [place, board] of boards.entries()) {
    const folds = words.getAll(`${place + 1}.fold`);
    for (const group of board.groups) group.open = group.first !== folds.includes(group.body.id);
    const [, order, name] = /^(ascending|descending) (.*)$/.exec(words.get(`${place + 1}.sort`)) ?? [];
    const column = board.heads.findIndex((head) => head.textContent.trim() === name);
    setOrder(board, Math.max(column, 0), column < 0 ? null : order);
  }
  const ids = words.get("compare")?.split(",") ?? [];
  chooseById(boards, ids.map((id) => `row-${id}`));
  following = false;
}

document.addEventListener("input", remember);
document.addEventListener("change", remember);
