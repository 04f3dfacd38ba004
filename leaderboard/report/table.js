// Tables: sorting, filtering, kinds of rows, columns. Rows are sorted among their own kind alone.
// Without scripts the tables stand as they are, best first. A row is a record: its id, the words a
// filter looks in, what each column is sorted by, and its element once it has one.
"use strict";

const STEP = 200; // rows of a kind that are shown at once, and by each "more"
const LONG = 40; // lines from which on a table scrolls in a frame of its own, below its heads
const collator = new Intl.Collator("en", { numeric: true });

function readBoard(section) {
  const element = section.querySelector("table.rows");
  const heads = [...element.tHead.rows[0].cells];
  const board = { section, element, heads, column: null, order: null, words: [] };
  board.groups = [...element.tBodies].map((body) => readGroup(body, heads));
  const measured = board.groups.some((group) => !group.body.matches(".published, .imported"));
  for (const group of board.groups) {
    group.open = !(measured && group.body.matches(".published") && group.records.length > 5);
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
  return { id: row.id, row, orders, words: wordsOf(row) };
}

function textOf(cell) {
  return (cell.querySelector(".name") ?? cell).textContent.trim();
}

function wordsOf(row) {
  const said = [...row.querySelectorAll("th, .origin")].map((cell) => cell.textContent);
  return said.join(" ").toLowerCase();
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
  const height = board.groups.reduce((sum, { body }) => sum + body.rows.length, 0);
  board.element.parentElement.classList.toggle("long", height > LONG);
  const all = board.groups.reduce((sum, group) => sum + group.records.length, 0);
  const said = `${count(found)} of ${count(all)} rows match`;
  board.section.querySelector(".count").textContent = board.words.length ? said : "";
}

function drawGroup(board, group) {
  const match = ({ words }) => board.words.every((word) => words.includes(word));
  const records = group.visible ? ordered(group.records.filter(match), board) : [];
  const open = group.open || board.words.length > 0;
  const rows = open ? records.slice(0, group.limit).map(rowOf) : [];
  const left = open ? records.length - rows.length : 0;
  group.body.hidden = !group.visible || (board.words.length > 0 && records.length === 0);
  group.head.querySelector("button").ariaExpanded = String(open);
  group.body.replaceChildren(group.head, ...rows, ...(left ? [moreRow(board, group, left)] : []));
  return records.length;
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

// Best first, then the other way, then as the board had them.
function sortBy(board, column) {
  const head = board.heads[column];
  const first = head.dataset.order === "down" ? "descending" : "ascending";
  const second = first === "descending" ? "ascending" : "descending";
  const next = { [first]: second, [second]: null };
  const now = head.getAttribute("aria-sort");
  board.order = now === null ? first : next[now];
  board.column = board.order === null ? null : column;
  board.heads.forEach((each) => each.removeAttribute("aria-sort"));
  if (board.order) head.setAttribute("aria-sort", board.order);
  draw(board);
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

// An empty cell stands last in either order.
function compareKeys(a, b, sign, text) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (text ? collator.compare(a, b) : a - b);
}

function addSorting(board) {
  board.heads.forEach((head, column) => {
    const button = makeElement("button", { type: "button" }, ...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => sortBy(board, column));
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
    });
  }
}

function addTools(board) {
  const tools = board.section.querySelector(".tools");
  tools.querySelector("input[type=search]").addEventListener("input", (event) => {
    board.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    draw(board);
  });
  tools.querySelector(".kinds").addEventListener("change", ({ target }) => {
    board.groups.find(({ body }) => body.id === target.value).visible = target.checked;
    draw(board);
  });
  addColumnChoice(board, tools.querySelector(".columns"));
  tools.hidden = false;
}

// A style sheet made by script is no inline style, so the policy allows it.
function addColumnChoice(board, tool) {
  const sheet = new CSSStyleSheet();
  document.adoptedStyleSheets.push(sheet);
  tool.addEventListener("change", () => {
    const hidden = [...tool.querySelectorAll("input:not(:checked)")].map(({ value }) => value);
    const cells = hidden.map((place) => `#${board.element.id} tr > :nth-child(${place})`);
    sheet.replaceSync(cells.length ? `${cells.join(", ")} { display: none; }` : "");
  });
}
