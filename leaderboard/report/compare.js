// Comparison of selected rows side by side. The URL contains the ids of the rows, so that a comparison
// can be shared.
"use strict";

const chosen = new Map(); // board and record of each selected row, keyed by id, in order of selection

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
  tray.querySelector("[role=status]").textContent = chosen.size ? `${rows} selected` : "";
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
      ? "Select another row to compare it with this one."
      : `Differences are relative to ${first} on the same split and metric. Below a score on another ` +
        "split or metric, these are named. The best score of each line is bold. The URL keeps this selection. " +
        testsSaid(rows, tests, ofSeeds);
  const said = tests.map((test, place) => test ?? ofSeeds[place]);
  const table = makeElement("table", {}, headOf(rows, records, remove), bodyOf(board, rows, said));
  const caption = makeElement("caption", { className: "unseen", textContent: "Selected rows, task by task" });
  table.prepend(caption);
  const scroll = makeElement("div", { className: "scroll", tabIndex: 0 }, table);
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", "Side by side");
  return [makeElement("p", { className: "quiet", textContent: text }), scroll];
}

// Return the results of paired tests of two rows, keyed by column. Python computed them when it wrote
// the page, for some pairs of rows only; for other pairs the result is undefined.
function contrastOf(board, one, other) {
  board.contrasts ??= JSON.parse(board.section.dataset.contrasts ?? "[]");
  const found = board.contrasts.find(([a, b]) => [a, b].includes(one.id) && [a, b].includes(other.id));
  return one === other ? null : found?.[2];
}

// Test two rows with Welch's t-test over seeds, task by task. The p-values are corrected for the number
// of tasks with Holm's method.
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
    return [name, `${least < 0.05 ? "* " : ""}Welch's t-test over ${counts} seeds: p = ${least.toPrecision(2)} after Holm's correction`];
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
  // Integrate both tails of Student's t distribution. After the substitution t = sqrt(free) tan(x), its
  // density is proportional to cos(x) ** (free - 1).
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
  const by = (kind, names) => (names ? `${names} with ${kind}` : "");
  const stars = [
    by("the test of bench compare, corrected for the number of tasks", named((place) => tests[place])),
    by("a t-test over seeds, which ignores noise over examples", named((place) => ofSeeds[place])),
  ].filter(Boolean);
  const left = named((place) => !tests[place] && !ofSeeds[place] && rows[place].kind === "measured");
  const said = stars.length
    ? [`* marks a significant difference; hover over it for the p-value. Tests: ${stars.join("; ")}.`]
    : [];
  if (left && rows[0].kind === "measured") said.push(`These rows were not tested here: ${left}.`);
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

// Create the cells of a line. The best score is marked among the scores that have the same split and
// metric as the first row's score and that are not from collapsed runs.
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

// Return the difference to the first row's score as text. If the two scores have different splits or
// metrics, compare a component that both have, and name its metrics. If they share none, return the
// split and metrics of the cell's score.
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
