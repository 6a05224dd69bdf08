// Tables that sort by any column, show some rows first, and copy or save all of them as CSV.

const FIRST_ROWS = 100;

function csvText(columns, rows) {
  const field = (value) => {
    const text = value === null || value === undefined ? "" : String(value);
    return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  const lines = [columns.map((c) => field(c.name || c.title)), ...rows.map((row) => columns.map((c) => field(c.csv(row))))];
  return lines.map((line) => line.join(",") + "\n").join("");
}

// Columns: title, csv(row) gives what is sorted and copied, show(row) what is seen (else the same), right for numbers,
// mark(row) a class. `key` names the table, so that its order stays when the page is drawn anew.
const orders = new Map();
const openTables = new Set();

function table(key, columns, rows, rowMark) {
  const order = orders.get(key);
  if (order && columns[order.at]) {
    const value = columns[order.at].csv;
    const rank = (row) => (value(row) === null || value(row) === undefined || value(row) === "" ? 1 : 0);
    const compare = (a, b) => {
      const [x, y] = [value(a), value(b)];
      if (rank(a) !== rank(b)) return rank(a) - rank(b);
      const less = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
      return order.down ? -less : less;
    };
    rows = [...rows].sort(compare);
  }
  const open = openTables.has(key) || rows.length <= FIRST_ROWS + 20;
  const visible = open ? rows : rows.slice(0, FIRST_ROWS);
  const host = el("div", { class: "table" });
  const again = () => {
    const next = table(key, columns, rows, rowMark);
    host.replaceWith(next);
  };
  const sortBy = (at) => () => {
    orders.set(key, { at, down: order?.at === at ? !order.down : Boolean(columns[at].right) });
    again();
    document.querySelector(`[data-key="${CSS.escape(key + ".sort." + at)}"]`)?.focus();
  };
  const head = columns.map((column, at) => {
    const sorted = order?.at === at ? (order.down ? "descending" : "ascending") : "none";
    return el("th", { class: column.right ? "right" : null, "aria-sort": sorted, scope: "col" },
      button([column.title, el("span", { class: "arrow", "aria-hidden": "true" }, sorted === "none" ? "" : order.down ? " ▼" : " ▲")],
        key + ".sort." + at, sortBy(at)));
  });
  const line = (row) =>
    el("tr", { class: rowMark ? rowMark(row) : null }, columns.map((column) => {
      const marks = [column.right ? "right" : null, column.mark ? column.mark(row) : null].filter(Boolean).join(" ");
      const shown = column.show ? column.show(row) : column.csv(row);
      return el("td", { class: marks || null }, shown === "" || shown === null || shown === undefined ? NONE : shown);
    }));
  const copied = async (event) => {
    const pressed = event.currentTarget;
    pressed.textContent = (await copy(csvText(columns, rows))) ? "Copied" : "Not permitted";
    setTimeout(() => { pressed.textContent = "Copy as CSV"; }, 1500);
  };
  add(host, [
    el("div", { class: "tools" },
      button("Copy as CSV", key + ".copy", copied),
      button("Save CSV", key + ".save", () =>
        save(fileName(run().name, key) + ".csv", new Blob([csvText(columns, rows)], { type: "text/csv" })))),
    el("div", { class: "scroll" }, el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, visible.map(line)))),
    open ? null : el("p", { class: "more" }, `${FIRST_ROWS} of ${rows.length} rows. `,
      button("Show all", key + ".all", () => { openTables.add(key); again(); })),
  ]);
  return host;
}
