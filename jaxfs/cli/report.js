"use strict";
// Sort a table by a click on a heading, and show only the rows that contain a word.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], buttons = [...table.tHead.querySelectorAll("button")];
  buttons.forEach((button, column) => button.addEventListener("click", () => {
    const heading = button.closest("th");
    const down = heading.getAttribute("aria-sort") === "ascending";
    for (const other of buttons) other.closest("th").removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent.trim();
    const compare = (a, b) => {
      const [x, y] = [key(a), key(b)], [u, v] = [Number(x), Number(y)];
      if (x === "nan" || y === "nan") return (x === "nan") - (y === "nan"); // unknown values last
      const order = Number.isNaN(u) || Number.isNaN(v) ? x.localeCompare(y) : u - v;
      return down ? -order : order;
    };
    body.append(...[...body.rows].sort(compare));
  }));
}
const filter = document.getElementById("filter");
filter?.addEventListener("input", () => {
  const word = filter.value.trim().toLowerCase();
  for (const row of document.querySelectorAll("table.sortable tbody tr"))
    row.hidden = !row.textContent.toLowerCase().includes(word);
});
