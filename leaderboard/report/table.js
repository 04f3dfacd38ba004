// Tables of the report: sorting, filtering, kinds of rows and columns. Each kind of rows is sorted
// separately. Without scripts, the tables are shown as written, best first. A record describes a row:
// its id, the text that filters search, its sort key in each column, its family, year and size, and
// its element if that has been created.
"use strict";

const STEP = 200; // number of rows per kind that are shown first, and that each "more" adds
const FAMILY = 0, YEAR = 1, SIZE = 2; // indices of facets
const collator = new Intl.Collator("en", { numeric: true });

function readBoard(section) {
  const element = section.querySelector("table.rows");
  const heads = [...element.tHead.rows[0].cells];
  const sheet = new CSSStyleSheet(); // the policy forbids inline styles but allows this
  document.adoptedStyleSheets.push(sheet);
  const board = { section, element, heads, sheet, column: null, order: null, words: [], facets: ["", ""] };
  board.groups = [...element.tBodies].map((body) => readGroup(body, heads));
  const measured = board.groups.some((group) => !group.body.matches(".published, .imported"));
  for (const group of board.groups) {
    group.open = !(measured && group.body.matches(".published") && group.records.length > 5);
    group.first = group.open;
  }
  return board;
}

function readGroup(body, heads) {
  const rows = [...body.rows].filter((row) => row.id);
  const records = rows.map((row) => readRow(row, heads));
  return { body, head: body.rows[0], records, open: true, visible: true, limit: STEP };
}

function readRow(row, heads) {
  const orders = heads.map((head, column) => {
    const cell = row.cells[column];
    return head.dataset.order === "text" ? textOf(cell) : (cell.dataset.value ?? "");
  });
  const { family = "", year = "", size = "" } = row.dataset;
  return { id: row.id, row, orders, facets: [family, year, size], words: wordsOf(row) };
}

function textOf(cell) {
  return (cell.querySelector(".name") ?? cell).textContent.trim();
}

function wordsOf(row) {
  return `${row.querySelector("th").textContent} ${row.dataset.family ?? ""}`.toLowerCase();
}

async function addPackedRows(board) {
  for (const script of board.section.querySelectorAll("script.packed-rows")) {
    const group = board.groups.find(({ body }) => body.id === script.dataset.group);
    const packed = JSON.parse(await unpack(script));
    for (const record of packed) record.words = record.words.toLowerCase();
    group.records.push(...packed);
    script.remove();
  }
}

function rowOf(record) {
  record.row ??= parseHtml(record.html).querySelector("tr");
  record.html = undefined;
  record.row.querySelector(".choose input").checked = isChosen(record.id);
  return record.row;
}

function draw(board) {
  let found = 0;
  for (const group of board.groups) found += drawGroup(board, group);
  const all = board.groups.reduce((sum, group) => sum + group.records.length, 0);
  const said = `${count(found)} of ${count(all)} rows match`;
  board.section.querySelector(".count").textContent = isFiltered(board) ? said : "";
  hideColumns(board);
}

function isFiltered({ words, facets, from, to }) {
  return words.length > 0 || facets.some(Boolean) || from > 0 || to > 0;
}

function isMatch({ words, facets }, board) {
  const size = Number(facets[SIZE]);
  return (
    board.words.every((word) => words.includes(word)) &&
    board.facets.every((facet, place) => !facet || facets[place] === facet) &&
    (!(board.from > 0) || size >= board.from) &&
    (!(board.to > 0) || (size > 0 && size <= board.to))
  );
}

function drawGroup(board, group) {
  const filtered = isFiltered(board);
  const found = filtered ? group.records.filter((record) => isMatch(record, board)) : group.records;
  sayFound(board, group, filtered ? found.length : null);
  const records = group.visible ? ordered(found, board) : [];
  const open = group.open || filtered;
  group.shown = open ? records.slice(0, group.limit) : [];
  const rows = group.shown.map(rowOf);
  const left = open ? records.length - rows.length : 0;
  group.body.hidden = !group.visible || (filtered && records.length === 0);
  group.head.querySelector("button").ariaExpanded = String(open);
  group.body.replaceChildren(group.head, ...rows, ...(left ? [moreRow(board, group, left)] : []));
  return records.length;
}

// Show how many rows of a kind match, in its heading and next to its checkbox.
function sayFound(board, { body, head, records }, found) {
  const all = count(records.length);
  const box = board.section.querySelector(`.kinds [value="${CSS.escape(body.id)}"]`);
  for (const place of [head, box.parentElement]) {
    place.querySelector(".found").textContent = found === null ? all : `${count(found)} of ${all}`;
  }
}

function moreRow(board, group, left) {
  const text = `Show ${count(Math.min(STEP, left))} more of ${count(left)}`;
  const button = makeElement("button", { type: "button", textContent: text });
  button.addEventListener("click", () => {
    const first = group.limit;
    group.limit += STEP;
    draw(board);
    group.body.rows[first + 1]?.querySelector("input").focus();
  });
  const cell = makeElement("td", { colSpan: board.heads.length }, button);
  return makeElement("tr", { className: "more" }, cell);
}

function count(number) {
  return number.toLocaleString("en");
}

// Change the order by a column: first best first, then worst first, then the original order.
function sortBy(board, column) {
  const first = board.heads[column].dataset.order === "down" ? "descending" : "ascending";
  const second = first === "descending" ? "ascending" : "descending";
  const now = board.column === column ? board.order : null;
  setOrder(board, column, now === null ? first : { [first]: second, [second]: null }[now]);
}

function setOrder(board, column, order) {
  board.order = order;
  board.column = order === null ? null : column;
  board.heads.forEach((each) => each.removeAttribute("aria-sort"));
  if (order) board.heads[column].setAttribute("aria-sort", order);
  draw(board);
  pinHead(board);
}

function ordered(records, { heads, column, order }) {
  if (column === null) return records;
  const text = heads[column].dataset.order === "text";
  const sign = order === "ascending" ? 1 : -1;
  const keyOf = text ? (key) => key : (key) => (key === "" ? null : Number(key));
  const keyed = records.map((record) => [keyOf(record.orders[column]), record]);
  keyed.sort(([a], [b]) => compareKeys(a, b, sign, text));
  return keyed.map(([, record]) => record);
}

// Compare two sort keys; empty cells come last in both orders.
function compareKeys(a, b, sign, text) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (text ? collator.compare(a, b) : a - b);
}

function addSorting(board) {
  board.heads.forEach((head, column) => {
    const button = makeElement("button", { type: "button" }, ...head.childNodes);
    head.dataset.name = button.textContent; // for printing: Chromium repeats heads without their buttons
    head.append(button);
    button.addEventListener("click", () => {
      sortBy(board, column);
      remember();
    });
  });
}

function addFolding(board) {
  for (const group of board.groups) {
    const title = group.head.querySelector("b");
    const button = makeElement("button", { type: "button" }, ...title.childNodes);
    button.setAttribute("aria-controls", group.body.id);
    title.append(button);
    button.addEventListener("click", () => {
      group.open = !group.open;
      draw(board);
      remember();
    });
  }
}

function addTools(board) {
  const tools = board.section.querySelector(".tools");
  const named = (name) => tools.querySelector(`[name=${name}]`);
  tools.addEventListener("input", () => {
    board.words = named("find").value.toLowerCase().split(/\s+/).filter(Boolean);
    board.facets = [named("family").value, named("year").value];
    [board.from, board.to] = ["from", "to"].map((name) => Number(named(name).value));
    const isOn = ({ value }) => tools.querySelector(`[value="${CSS.escape(value)}"]`).checked;
    for (const group of board.groups) group.visible = isOn({ value: group.body.id });
    for (const { value, checked } of tools.querySelectorAll("[name=view]")) {
      board.section.classList.toggle(value, checked);
    }
    draw(board);
  });
  const fold = tools.querySelector(".fold"); // shows the tools that a narrow window hides
  fold.addEventListener("click", () => { fold.ariaExpanded = String(tools.classList.toggle("all")); });
  const menus = [...tools.querySelectorAll(".menu")];
  document.addEventListener("click", ({ target }) => {
    for (const menu of menus) if (!menu.contains(target)) menu.open = false;
  });
  tools.addEventListener("keydown", ({ key, target }) => {
    const menu = target.closest(".menu[open]");
    if (key !== "Escape" || !menu) return;
    menu.open = false;
    menu.querySelector("summary").focus();
  });
  tools.hidden = false;
}

// Add the filters for family, year and size, if the rows differ in these.
function addFacets(board) {
  const records = board.groups.flatMap((group) => group.records);
  const named = (name) => board.section.querySelector(`.facets [name=${name}]`);
  const known = (place) => [...new Set(records.map(({ facets }) => facets[place]))].filter(Boolean);
  [["family", FAMILY], ["year", YEAR]].forEach(([name, place]) => {
    const values = known(place).sort(collator.compare);
    named(name).append(...values.map((value) => new Option(value)));
    named(name).parentElement.hidden = values.length < 2;
  });
  named("from").parentElement.hidden = known(SIZE).length < 2;
}

// Hide the columns that the user has deselected, and columns that are empty in all shown rows.
function hideColumns(board) {
  const shown = board.groups.flatMap((group) => group.shown);
  const off = [...board.section.querySelectorAll(".columns input:not(:checked)")].map(({ value }) => value);
  board.hidden = board.heads.map((head, column) => {
    if (off.includes(head.textContent.trim())) return true;
    return column !== 1 && shown.length > 0 && shown.every(({ orders }) => orders[column] === "");
  });
  const cells = board.hidden.flatMap((is, column) => (is ? [`tr:not(.kind, .more) > :nth-child(${column + 1})`] : []));
  board.sheet.replaceSync(cells.map((cell) => `.of-${board.element.id} ${cell} { display: none; }`).join(" "));
  board.element.classList.toggle("unranked", board.hidden[0]);
}

// Keep the column heads visible. If a table fits the window, its head sticks to the top of the window.
// A wider table scrolls in a frame, so a copy of its head sticks instead and scrolls sideways with it.
function pinHead(board) {
  const { element } = board;
  const scroll = element.parentElement;
  const fits = element.offsetWidth <= scroll.clientWidth + 1;
  scroll.classList.toggle("fits", fits);
  board.pinned?.remove();
  board.pinned = null;
  if (fits) return;
  const table = makeElement("table", { className: element.className }, element.tHead.cloneNode(true));
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    head.style.width = `${board.heads[column].getBoundingClientRect().width}px`;
    const button = head.querySelector("button");
    button?.replaceWith(...button.childNodes);
    head.addEventListener("click", () => board.heads[column].querySelector("button").click());
  });
  table.style.width = `${element.offsetWidth}px`;
  const strip = makeElement("div", {}, table);
  strip.style.width = `${scroll.clientWidth + 2}px`;
  board.pinned = makeElement("div", { className: "pinned", ariaHidden: "true" }, strip);
  scroll.before(board.pinned);
  strip.scrollLeft = scroll.scrollLeft;
}

function addPinning(board) {
  const scroll = board.element.parentElement;
  board.element.classList.add(`of-${board.element.id}`);
  const observer = new ResizeObserver(() => pinHead(board));
  observer.observe(board.element);
  observer.observe(scroll.parentElement);
  scroll.addEventListener("scroll", () => {
    if (board.pinned) board.pinned.firstChild.scrollLeft = scroll.scrollLeft;
  }, { passive: true });
}
