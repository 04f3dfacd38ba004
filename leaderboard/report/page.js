// Main script of the report: makes the leaderboards interactive and applies the view in the URL.
"use strict";

const boards = [...document.querySelectorAll("section.board")].map(readBoard);

for (const board of boards) {
  addSorting(board);
  addFolding(board);
  addTools(board);
  addCopying(board);
  followArrows(board.element);
  draw(board);
  addPinning(board);
  board.element.addEventListener("change", ({ target }) => {
    const row = target.closest(".choose") && target.closest("tr");
    const record = row && board.groups.flatMap(({ records }) => records).find((r) => r.row === row);
    if (!record) return;
    choose(board, record, target.checked);
    drawComparisons(boards);
  });
}

for (const entry of document.querySelectorAll("details.entry[data-ids]")) {
  entry.addEventListener("toggle", () => unpackEntry(entry));
}

const tray = document.querySelector(".tray");
tray.querySelector(".see").addEventListener("click", () => {
  const heading = document.querySelector(".compare:not([hidden]) h3");
  heading.scrollIntoView();
  heading.focus({ preventScroll: true });
});
tray.querySelector(".clear").addEventListener("click", () => {
  chooseById(boards, []);
  remember();
});

const theme = document.querySelector(".theme");
theme.hidden = false;
theme.addEventListener("change", () => {
  document.documentElement.dataset.theme = theme.querySelector("select").value;
});

// A fragment of the URL with "=" describes a view of the page; any other is the id of a section.
function followAddress() {
  const said = location.hash.slice(1);
  if (said.includes("=")) recall(new URLSearchParams(said));
  else if (said) openTarget(decodeURIComponent(said));
}

async function finish() {
  for (const board of boards) {
    await addPackedRows(board);
    addFacets(board);
    if (board.groups.some(({ records }) => records.length > STEP)) draw(board);
  }
  followAddress();
  addEventListener("hashchange", followAddress);
  performance.mark("ready");
}

finish();
