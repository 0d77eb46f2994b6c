// Tables marked sortable are sorted by a click on a head; what is closed opens for the printer. Without this the page is whole.
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const heads = [...table.tHead.rows[0].cells];
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const downwards = head.getAttribute("aria-sort") !== "descending";
      const key = (row) => {
        const cell = row.cells[column];
        return cell.dataset.key === undefined ? cell.textContent : Number(cell.dataset.key);
      };
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      const rows = [...table.tBodies[0].rows].sort((a, b) => (downwards ? -1 : 1) * compare(key(a), key(b)));
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", downwards ? "descending" : "ascending");
      table.tBodies[0].append(...rows);
    });
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((each) => { each.open = true; }));
