// What the file holds: runs with axes, metrics, cells (single measurements), groups (all rounds of one combination
// of labels, their figures made by tidelab) and series. See report/page.rs.

const page = JSON.parse(document.getElementById("data").textContent);

// Columns of numbers as text, see report/compact.rs.
const columns = new Map();
function decoded(text) {
  let values = columns.get(text);
  if (values) return values;
  const raw = atob(text);
  const view = new DataView(new ArrayBuffer(4));
  values = new Array(raw.length / 3);
  for (let i = 0; i < values.length; i++) {
    view.setUint8(0, raw.charCodeAt(3 * i));
    view.setUint8(1, raw.charCodeAt(3 * i + 1));
    view.setUint8(2, raw.charCodeAt(3 * i + 2));
    const value = view.getFloat32(0);
    // Five digits were kept; more would be made up.
    values[i] = Number.isFinite(value) ? Number(value.toPrecision(6)) : null;
  }
  columns.set(text, values);
  if (columns.size > 2000) columns.delete(columns.keys().next().value);
  return values;
}

for (const run of page.runs) {
  run.byLabels = new Map(run.groups.map((group) => [group.l.join(), group]));
  for (const group of run.groups) group.run = run;
  run.failed = run.cells.filter((cell) => cell.f.length || cell.v.every((value) => value === null));
}

function groupAt(run, labels) {
  return run.byLabels.get(labels.join());
}

function failed(group) {
  return group.f.length > 0;
}

function labelText(run, axis, value) {
  return run.axes[axis].values[value] || "(none)";
}

// 64 threads, 1 thread.
function countText(run, axis, value) {
  const [count, title] = [labelText(run, axis, value), run.axes[axis].title.toLowerCase()];
  return `${count} ${count === "1" ? title.replace(/s$/, "") : title}`;
}

function isNumeric(axis) {
  return axis.role === "number" && axis.values.every((value) => Number.isFinite(labelNumber(value)));
}

// The values that are told apart within a run; an axis with one value says nothing in a title.
function titleOf(run, labels, without) {
  const said = run.axes.map((axis, at) =>
    axis.values.length > 1 && !(without || []).includes(at)
      ? (axis.role === "number" ? countText(run, at, labels[at]) : labelText(run, at, labels[at]))
      : null);
  return said.filter(Boolean).join(" · ");
}

function link(run, ...parts) {
  const path = parts.join("/").split("/").map(encodeURIComponent).join("/");
  const start = run.link.split("/").map((part) => (part === ".." ? part : encodeURIComponent(part))).join("/");
  return (start ? start + "/" : "") + path;
}

// Files of a cell, as links.
function rawLinks(run, cell) {
  const names = ["cell.json", ...cell.sn, ...cell.x];
  return el("span", { class: "raw" }, names.map((name) =>
    el("a", { href: link(run, "cells", cell.d, name), target: "_blank", rel: "noopener" }, name)));
}

// One column of the series of a cell: [times, values]; null where it is not there.
function column(run, cell, name) {
  for (const at of cell.s) {
    const series = run.series[at];
    const place = series.columns.indexOf(name);
    if (place < 0) continue;
    const times = decoded(series.at);
    const values = series.v[place];
    return [times, typeof values === "string" ? decoded(values) : times.map(() => values)];
  }
  return null;
}

// 1 worse, 2 better, 0 neither or not known: what a ratio's verdict says of this metric.
function judged(metric, ratio) {
  if (!ratio || ratio[3] === "none" || metric.better === "neither") return 0;
  return (ratio[3] === "higher") === (metric.better === "higher") ? 2 : 1;
}

// The same for a cell of a table, whose head has the unit.
function spreadCell(spread, unit) {
  if (!spread) return NONE;
  const rest = spread[1] !== spread[2] ? ` ${number2(spread[1], unit)} to ${number2(spread[2], unit)}` : "";
  return [number2(spread[0], unit), rest ? el("small", {}, rest) : null];
}

function ratioCell(ratio) {
  if (!ratio) return NONE;
  const digits = (value) => value.toFixed(value < 10 ? 2 : 1);
  return [digits(ratio[0]), ratio[1] !== ratio[2] ? el("small", {}, ` ${digits(ratio[1])} to ${digits(ratio[2])}`) : null];
}

function spreadText(spread, unit) {
  if (!spread) return NONE;
  return quantity(spread[0], unit) + (spread[1] !== spread[2] ? ` (${number2(spread[1], unit)} to ${number2(spread[2], unit)})` : "");
}

// Without the unit, but for sizes, whose unit goes with the number.
function number2(value, unit) {
  if (value === null || value === undefined) return NONE;
  return isBytes(unit) ? bytes(value, number) : number(value);
}

function ratioText(ratio) {
  if (!ratio) return NONE;
  const digits = (value) => value.toFixed(value < 10 ? 2 : 1);
  return digits(ratio[0]) + (ratio[1] !== ratio[2] ? ` (${digits(ratio[1])} to ${digits(ratio[2])})` : "");
}
