// Copying of a leaderboard, or of its selected rows, as a table for a paper, README or spreadsheet.
"use strict";

const LATEX = {
  "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}",
  ">": "\\textgreater{}", "|": "\\textbar{}", "–": "\\textendash{}", "±": "\\ensuremath{\\pm}",
};
for (const mark of "{}$&#%_") LATEX[mark] = `\\${mark}`;

function addCopying(board) {
  const menu = board.section.querySelector(".copy");
  const area = menu.querySelector("textarea");
  const status = menu.querySelector("[role=status]");
  menu.addEventListener("click", async ({ target }) => {
    if (target.type !== "button") return;
    const table = copiedRows(board);
    area.value = { latex: asLatex, markdown: asMarkdown, csv: asCsv }[target.value](table);
    area.hidden = false;
    area.select();
    const rows = table.rows.length === 1 ? "1 row" : `${count(table.rows.length)} rows`;
    try {
      await navigator.clipboard.writeText(area.value);
      status.textContent = `${rows} copied`;
    } catch {
      status.textContent = `Copy the ${rows} from this box`;
    }
  });
}

// Return the selected rows or, if none are selected, all visible rows; hidden columns are left out.
function copiedRows(board) {
  const shown = board.groups.flatMap((group) => group.shown.map((record) => ({ record, group })));
  const some = shown.filter(({ record }) => isChosen(record.id));
  const columns = board.heads.map((_, column) => column).filter((column) => column > 1 && !board.hidden[column]);
  const rows = (some.length ? some : shown).map(({ record, group }) => {
    const row = rowOf(record);
    return {
      name: row.querySelector(".name").textContent,
      details: row.querySelector(".said").textContent.trim(),
      kind: group.body.dataset.title,
      cells: columns.map((column) => readCopied(row.cells[column])),
    };
  });
  const title = board.section.querySelector("h2").textContent.trim();
  return { title, heads: columns.map((column) => board.heads[column].textContent.trim()), rows };
}

function readCopied(cell) {
  const text = (cell.querySelector("a, span") ?? cell).textContent.trim();
  return {
    text: cell.dataset.value === undefined ? "" : text,
    spread: cell.querySelector("small:not(.ends)")?.textContent.slice(1) ?? "",
    best: cell.matches(".best"),
  };
}

function asCsv({ heads, rows }) {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const guarded = (text) => quoted(/^[=+@\t-]/.test(text) ? `'${text}` : text); // escape formulas
  const lines = rows.map(({ kind, name, details, cells }) => [
    ...[kind, name, details].map(guarded),
    ...cells.flatMap(({ text, spread }) => [quoted(text), spread]),
  ]);
  const columns = heads.flatMap((head) => [guarded(head), guarded(`${head} ±`)]);
  return [["kind", "model", "details", ...columns], ...lines].map((line) => `${line.join(",")}\n`).join("");
}

function asMarkdown({ heads, rows }) {
  const plain = (text) =>
    text.replace(/[&<>]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[mark]).replace(/[\\`*_{}[\]#+!|~:@$]/g, "\\$&");
  const line = (cells) => `| ${cells.join(" | ")} |\n`;
  const valueOf = ({ text, spread, best }) =>
    (best ? `**${text}**` : text || "–") + (spread ? ` ± ${spread}` : "");
  const head = line(["model", "details", ...heads.map(plain)]) + line([":--", ":--", ...heads.map(() => "--:")]);
  return head + rows.map(({ name, details, cells }) => line([plain(name), plain(details), ...cells.map(valueOf)])).join("");
}

function asLatex({ title, heads, rows }) {
  const plain = (text) => [...text].map((mark) => LATEX[mark] ?? mark).join("");
  const valueOf = ({ text, spread, best }) =>
    (best ? `\\textbf{${text}}` : plain(text) || "--") + (spread ? `\\,{\\scriptsize$\\pm$${spread}}` : "");
  const lines = rows.map(({ name, kind, cells }, place) => {
    const isNew = place > 0 && kind !== rows[place - 1].kind;
    return `${isNew ? "\\midrule\n" : ""}${[plain(name), ...cells.map(valueOf)].join(" & ")} \\\\\n`;
  });
  return (
    `% needs \\usepackage{booktabs}\n\\begin{table}\n\\centering\n\\caption{${plain(title)}}\n` +
    `\\begin{tabular}{l${"r".repeat(heads.length)}}\n\\toprule\n` +
    `${["model", ...heads.map(plain)].join(" & ")} \\\\\n\\midrule\n${lines.join("")}` +
    "\\bottomrule\n\\end{tabular}\n\\end{table}\n"
  );
}
