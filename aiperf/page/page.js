// Tables marked sortable are sorted by a click on a head; what is closed opens for the printer. Without this the page is whole.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const upwardsFirst = head.hasAttribute("data-upwards");
      const now = head.getAttribute("aria-sort");
      const downwards = upwardsFirst ? now === "ascending" : now !== "descending";
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.key === undefined ? (head.classList.contains("number") ? null : cell.textContent) : Number(cell.dataset.key);
      };
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      // What was not measured is neither much nor little: it stays at the end, whichever way.
      const missing = (a, b) => (a === null ? 1 : 0) - (b === null ? 1 : 0);
      const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
      rows.sort(([a], [b]) => missing(a, b) || (a === null ? 0 : (downwards ? -1 : 1) * compare(a, b)));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", downwards ? "descending" : "ascending");
      table.tBodies[0].append(...rows.map(([, row]) => row));
    });
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details:not(.screen)").forEach((each) => { each.open = true; }));
// A hint to swipe stands only over what is wider than its frame.
const hints = () => document.querySelectorAll(".hint").forEach((hint) => {
  const frame = hint.parentElement.querySelector(".scroll");
  hint.hidden = frame.scrollWidth <= frame.clientWidth + 1;
});
hints();
addEventListener("resize", hints);
