// Numbers for people: at least four digits, units that fit.

const NONE = "–";

function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size === 0) return "0";
  if (size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(size >= 100 ? 4 : 3)));
}

// For axes: 20k, 1.5M.
function shortNumber(value) {
  const size = Math.abs(value);
  for (const [bound, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= bound) {
      const divisor = letter === "k" ? 1e3 : bound;
      return String(Number((value / divisor).toPrecision(3))) + letter;
    }
  }
  return number(value);
}

function bytes(value, say) {
  const size = Math.abs(value);
  for (const [bound, unit] of [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"]]) {
    if (size >= bound) return say(value / bound) + " " + unit;
  }
  return say(value) + " B";
}

function isBytes(unit) {
  return unit === "B" || unit === "bytes";
}

// With its unit.
function quantity(value, unit) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (isBytes(unit)) return bytes(value, number);
  return unit ? number(value) + " " + unit : number(value);
}

function tickText(value, unit) {
  return isBytes(unit) ? bytes(value, shortNumber) : shortNumber(value);
}

// Of one axis: all in the unit of the largest.
function tickTexts(values, unit) {
  const largest = Math.max(...values.map((value) => Math.abs(value ?? 0)));
  const steps = isBytes(unit)
    ? [[2 ** 40, " TiB"], [2 ** 30, " GiB"], [2 ** 20, " MiB"], [2 ** 10, " KiB"], [1, " B"]]
    : [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"], [0, ""]];
  const [bound, name] = steps.find(([least]) => largest >= least) || steps[steps.length - 1];
  const divisor = name === "k" ? 1e3 : bound || 1;
  return values.map((value) => (value === null ? null : value === 0 ? "0" : divisor === 1 ? number(value) + (isBytes(unit) ? name : "")
    : String(Number((value / divisor).toPrecision(4))) + name));
}

const ENDINGS = [
  ["_bytes_per_s", "B/s"], ["_per_s", "1/s"], ["_percent", "%"], ["_bytes", "B"], ["_mb", "MB"], ["_cpus", "CPUs"],
  ["_us", "µs"], ["_ms", "ms"], ["_ns", "ns"], ["_s", "s"],
];

// A column's name ends with its unit.
function columnUnit(name) {
  const ending = ENDINGS.find(([end]) => name.endsWith(end));
  return ending ? ending[1] : "";
}

function columnTitle(name) {
  const ending = ENDINGS.find(([end]) => name.endsWith(end) && name.length > end.length);
  const text = (ending ? name.slice(0, -ending[0].length) : name).replace(/_/g, " ");
  return text || name;
}

function seconds(value) {
  if (value < 120) return number(value) + " s";
  if (value < 7200) return Math.round(value / 60) + " min";
  return number(value / 3600) + " h";
}

function date(unix) {
  if (!unix) return "not known";
  return new Date(unix * 1000).toISOString().slice(0, 16).replace("T", " ") + " UTC";
}

// A label of an axis that counts, as 64, 2.5, 64M, 2 GB; NaN for another.
function labelNumber(text) {
  const found = /^\s*([0-9]*\.?[0-9]+(?:e[0-9]+)?)\s*([kKmMgGtT]?)(?:i?[bB])?\s*$/.exec(text);
  if (!found) return NaN;
  return Number(found[1]) * 1024 ** " KMGT".indexOf(found[2].toUpperCase() || " ");
}
