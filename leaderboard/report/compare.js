// Rows chosen to be seen side by side. The address holds them, so that a comparison can be shared.
"use strict";

const chosen = new Map(); // from a row's id to its board and record, in the order of choosing

function isChosen(id) {
  return chosen.has(id);
}

function choose(board, record, isIn) {
  if (isIn) chosen.set(record.id, { board, record });
  else chosen.delete(record.id);
  if (record.row) record.row.querySelector(".choose input").checked = isIn;
}

function chooseById(boards, ids) {
  for (const { board, record } of [...chosen.values()]) choose(board, record, false);
  for (const board of boards) {
    const records = new Map(board.groups.flatMap(({ records }) => records.map((r) => [r.id, r])));
    for (const id of ids) if (records.has(id)) choose(board, records.get(id), true);
  }
  drawComparisons(boards);
}

function drawComparisons(boards) {
  for (const board of boards) drawComparison(board, boards);
  const tray = document.querySelector(".tray");
  const rows = chosen.size === 1 ? "1 row" : `${chosen.size} rows`;
  tray.querySelector("[role=status]").textContent = chosen.size ? `${rows} chosen` : "";
  tray.hidden = chosen.size === 0;
}

function drawComparison(board, boards) {
  const panel = board.section.querySelector(".compare");
  const records = [...chosen.values()].filter((each) => each.board === board).map((e) => e.record);
  panel.hidden = records.length === 0;
  const remove = (record) => {
    choose(board, record, false);
    remember();
    drawComparisons(boards);
    if (!panel.hidden) panel.querySelector("h3").focus();
  };
  if (records.length) panel.querySelector(".sheet").replaceChildren(...sheetOf(board, records, remove));
}

function sheetOf(board, records, remove) {
  const rows = records.map((record) => describe(board, record));
  const tests = records.map((record) => contrastOf(board, records[0], record));
  const ofSeeds = rows.map((row, place) => (place && !tests[place] ? seedTests(board, rows[0], row) : null));
  const first = rows[0].name;
  const text =
    rows.length === 1
      ? "Choose another row to compare it with this one."
      : `Differences are relative to ${first}, on the same split and metric; other scores ` +
        "name their own. The best of each line is bold. The URL keeps this selection. " +
        testsSaid(rows, tests, ofSeeds);
  const said = tests.map((test, place) => test ?? ofSeeds[place]);
  const table = makeElement("table", {}, headOf(rows, records, remove), bodyOf(board, rows, said));
  const caption = makeElement("caption", { className: "unseen", textContent: "Chosen rows, task by task" });
  table.prepend(caption);
  const scroll = makeElement("div", { className: "scroll", tabIndex: 0 }, table);
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", "Side by side");
  return [makeElement("p", { className: "quiet", textContent: text }), scroll];
}

// The paired tests of two rows, by column: those of neighbours were made when the page was written.
function contrastOf(board, one, other) {
  board.contrasts ??= JSON.parse(board.section.dataset.contrasts ?? "[]");
  const found = board.contrasts.find(([a, b]) => [a, b].includes(one.id) && [a, b].includes(other.id));
  return one === other ? null : found?.[2];
}

// Welch's t-test over the seeds of two rows, task by task, corrected by Holm for the tasks.
function seedTests({ heads }, one, other) {
  const found = [];
  heads.forEach((head, column) => {
    const [a, b] = [one, other].map(({ cells }) => cells[column]);
    if (head.matches(".score") || !a.seeds || !b.seeds || a.basis !== b.basis) return;
    const p = welch(a.seeds, b.seeds);
    if (p !== null) found.push({ name: head.textContent.trim(), p, counts: `${a.seeds.length} and ${b.seeds.length}` });
  });
  found.sort((a, b) => a.p - b.p);
  let least = 0;
  const said = found.map(({ name, p, counts }, place) => {
    least = Math.max(least, Math.min(1, p * (found.length - place)));
    return [name, `${least < 0.05 ? "* " : ""}Welch's t over ${counts} seeds: p = ${least.toPrecision(2)} after Holm`];
  });
  return said.length ? Object.fromEntries(said) : null;
}

function welch(one, other) {
  const [a, b] = [one, other].map((values) => {
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    const squares = values.reduce((sum, value) => sum + (value - mean) ** 2, 0);
    return { mean, error: squares / (values.length - 1) / values.length, free: values.length - 1 };
  });
  const error = a.error + b.error;
  if (error === 0) return null;
  const free = error ** 2 / (a.error ** 2 / a.free + b.error ** 2 / b.free);
  // Both tails of Student's t: with t = sqrt(free) tan(x) its density is cos(x) ** (free - 1).
  const area = (from) => {
    const step = (Math.PI / 2 - from) / 2000;
    let sum = 0;
    for (let i = 0; i < 2000; i += 1) sum += Math.cos(from + (i + 0.5) * step) ** (free - 1);
    return sum * step;
  };
  return area(Math.atan(Math.abs(a.mean - b.mean) / Math.sqrt(error * free))) / area(0);
}

function testsSaid(rows, tests, ofSeeds) {
  const named = (kept) => rows.filter((_, place) => place && kept(place)).map(({ name }) => name).join(", ");
  const by = (kind, names) => (names ? `against ${names} ${kind}` : "");
  const stars = [
    by("the test of bench compare, corrected for the tasks", named((place) => tests[place])),
    by("a t-test over seeds alone, not over examples", named((place) => ofSeeds[place])),
  ].filter(Boolean);
  const left = named((place) => !tests[place] && !ofSeeds[place] && rows[place].kind === "measured");
  const said = stars.length ? [`* is a significant difference; hover over it for p: ${stars.join("; ")}.`] : [];
  if (left && rows[0].kind === "measured") said.push(`Not tested here against ${rows[0].name}: ${left}.`);
  if (left || ofSeeds.some(Boolean)) said.push("The command bench compare tests any two systems over examples and seeds.");
  return said.join(" ");
}

function describe(board, record) {
  const row = rowOf(record);
  const group = board.groups.find(({ records }) => records.includes(record));
  const cells = board.heads.map((head, column) => readCell(row.cells[column], head));
  return {
    name: row.querySelector(".name").textContent,
    details: row.querySelector(".said").textContent.trim(),
    kind: group.body.className,
    title: group.body.dataset.title,
    cells,
  };
}

function readCell(cell, head) {
  const link = cell.querySelector("a");
  const number = cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  const basis = cell.dataset.basis ?? head.dataset.basis;
  return {
    text: (link ?? cell.querySelector("span") ?? cell).textContent.trim(),
    spread: cell.querySelector("small:not(.ends)")?.textContent ?? "",
    value: number,
    basis,
    parts: number === null ? {} : { ...JSON.parse(cell.dataset.parts ?? "{}"), [basis]: number },
    href: link?.getAttribute("href"),
    seeds: cell.dataset.seeds?.split(" ").map(Number),
    flags: cell.querySelector(".flag")?.title,
    learned: cell.dataset.collapsed === undefined,
  };
}

function headOf(rows, records, remove) {
  const line = makeElement("tr", {}, makeElement("th", { scope: "col", textContent: "task" }));
  rows.forEach((row, place) => {
    const button = makeElement("button", { type: "button", className: "remove", textContent: "×" });
    button.setAttribute("aria-label", `remove ${row.name}`);
    button.addEventListener("click", () => remove(records[place]));
    const name = makeElement("span", { className: "name", textContent: row.name });
    const kind = makeElement("small", { className: "tag", textContent: row.title });
    const details = makeElement("small", { textContent: row.details });
    const head = makeElement("th", { scope: "col", className: row.kind }, button, name, kind, details);
    line.append(head);
  });
  return makeElement("thead", {}, line);
}

function bodyOf(board, rows, tests) {
  const body = makeElement("tbody");
  board.heads.forEach((head, column) => {
    const cells = rows.map((row) => row.cells[column]);
    if (head.dataset.basis === undefined || cells.every(({ value }) => value === null)) return;
    const task = makeElement("th", { scope: "row", textContent: head.textContent.trim() });
    task.title = notes.get(head) ?? head.title;
    const said = tests.map((test) => test?.[head.textContent.trim()] ?? "");
    body.append(makeElement("tr", {}, task, ...compareCells(cells, said)));
  });
  return body;
}

// The best is marked among the numbers that are of the same as the first row's and not collapsed.
function compareCells(cells, said) {
  const [base] = cells;
  const alike = cells.filter(({ value, basis }) => value !== null && basis === base.basis);
  const like = alike.filter(({ learned }) => learned);
  const best = alike.length > 1 && alike.includes(base) ? Math.max(...like.map(rounded)) : null;
  return cells.map((cell, place) => {
    const isBest = like.includes(cell) && rounded(cell) === best;
    const found = comparedCell(cell, isBest, cell === base ? cell.spread : difference(cell, base));
    found.title = said[place].replace(/^\* /, "");
    if (said[place].startsWith("*")) found.lastChild.append("*");
    return found;
  });
}

function rounded({ value }) {
  return Math.round(value * 10) / 10;
}

function comparedCell(cell, isBest, note) {
  const value = cell.href
    ? makeElement("a", { href: cell.href, textContent: cell.text })
    : makeElement("span", { textContent: cell.text });
  const small = makeElement("small", { textContent: note });
  if (/^[+−]/.test(note)) small.className = note[0] === "+" ? "up" : "down";
  const flag = cell.flags ? [makeElement("abbr", { className: "flag", title: cell.flags, textContent: "!" })] : [];
  return makeElement("td", { className: isBest ? "number best" : "number" }, value, ...flag, small);
}

// Less the first row's number, of the same scores on the same split: where the whole differs in
// what it is of, of a part that both have; where nothing is shared, what the number is of.
function difference(cell, base) {
  if (cell.value === null || base.value === null) return "";
  const shared = [base.basis, cell.basis, ...Object.keys(cell.parts)];
  const basis = shared.find((name) => name in cell.parts && name in base.parts);
  if (basis === undefined) return cell.basis;
  const by = rounded({ value: cell.parts[basis] }) - rounded({ value: base.parts[basis] });
  const sign = Math.abs(by) < 0.05 ? "±" : by > 0 ? "+" : "−";
  const of = basis === base.basis && basis === cell.basis ? "" : ` in ${basis.replace(/^\w+ /, "")}`;
  return `${sign}${Math.abs(by).toFixed(1)}${of}`;
}
