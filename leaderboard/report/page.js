// The page as a whole: its boards come alive, and its address is followed.
"use strict";

const boards = [...document.querySelectorAll("section.board")].map(readBoard);

for (const board of boards) {
  addSorting(board);
  addFolding(board);
  addTools(board);
  draw(board);
  board.element.addEventListener("change", ({ target }) => {
    const row = target.closest(".choose") && target.closest("tr");
    const record = row && board.groups.flatMap(({ records }) => records).find((r) => r.row === row);
    if (!record) return;
    choose(board, record, target.checked);
    rememberChosen();
    drawComparisons(boards);
  });
}

document.querySelectorAll(".packed-runs").forEach(offerPackedRuns);

const tray = document.querySelector(".tray");
tray.querySelector(".see").addEventListener("click", () => {
  const heading = document.querySelector(".compare:not([hidden]) h3");
  heading.scrollIntoView();
  heading.focus({ preventScroll: true });
});
tray.querySelector(".clear").addEventListener("click", () => {
  chooseById(boards, []);
  rememberChosen();
});

const theme = document.querySelector(".theme");
theme.hidden = false;
theme.addEventListener("change", () => {
  document.documentElement.dataset.theme = theme.querySelector("select").value;
});

function followAddress() {
  const ids = idsInAddress();
  if (ids) chooseById(boards, ids);
  else if (location.hash) openTarget(decodeURIComponent(location.hash.slice(1)));
}

async function finish() {
  for (const board of boards) {
    await addPackedRows(board);
    if (board.groups.some(({ records }) => records.length > STEP)) draw(board);
  }
  followAddress();
  addEventListener("hashchange", followAddress);
  performance.mark("ready");
}

finish();
