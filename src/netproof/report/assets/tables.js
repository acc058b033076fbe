// Small things that all parts use, and sorting of the tables that stand in the page as they are.

const byId = (id) => document.getElementById(id);

/** Make text safe inside markup, also inside a quoted attribute. */
const esc = (text) =>
  String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c]);

/** Make a name safe, and let lines end behind the marks that join its parts rather than anywhere. */
const breakable = (text) => esc(text).replace(/([_./-])(?=\w)/g, "$1<wbr>");

/** Write a number with at most so many significant digits, without an exponent where it is of common size. */
function figure(value, digits = 4) {
  if (value === null || value === undefined || value === "") return "";
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(digits)));
}

const seconds = (value) => (value === null ? "" : value < 0.01 ? value.toFixed(4) : value < 100 ? value.toFixed(2) : value.toFixed(0));

/** Compare numbers as numbers, words as words; what is empty comes last in either direction. */
function compare(a, b, sign) {
  const none = (value) => value === null || value === undefined || value === "";
  if (none(a) || none(b)) return none(a) - none(b);
  if (typeof a === "number" && typeof b === "number") return sign * (a - b);
  return sign * (a < b ? -1 : a > b ? 1 : 0);
}

/** Read a cell of a table as a number if it begins with one, else as lower-case words. */
function cellValue(cell) {
  const text = cell.textContent.trim();
  if (text === "-" || text === "–") return null;
  const number = /^[-+−]?[\d.]+(e[-+]?\d+)?/i.exec(text);
  return number ? Number(number[0].replace("−", "-")) : text.toLowerCase();
}

/** Tell by aria-sort which column a table is sorted by. */
function markSorted(headings, chosen, sign) {
  headings.forEach((heading, place) => {
    if (place === chosen) heading.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    else heading.removeAttribute("aria-sort");
  });
}

/** Turn the headings of a table into buttons that sort it; rows that are totals stay where they are: last. */
function makeSortable(table) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  if (!body || body.rows.length < 2) return;
  headings.forEach((heading, place) => {
    if (heading.tagName !== "TH") return; // a column without a name
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = heading.textContent;
    heading.replaceChildren(button);
    button.addEventListener("click", () => {
      const sign = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      const rows = [...body.rows].map((row) => [cellValue(row.cells[place]), row]);
      const total = (row) => row.classList.contains("total");
      rows.sort(([a, x], [b, y]) => total(x) - total(y) || compare(a, b, sign));
      body.append(...rows.map(([, row]) => row));
      markSorted(headings, place, sign);
    });
  });
}

document.querySelectorAll("table.sortable").forEach(makeSortable);
