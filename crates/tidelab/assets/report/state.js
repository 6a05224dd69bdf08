// What is chosen. It is kept in the address, so that a link shows the same, and in nothing else.

const state = {};
const listeners = [];

function run() {
  return page.runs[state.run];
}

function metric() {
  return run().metrics[state.metric];
}

// The values of an axis that are chosen, as places.
function chosen(axis) {
  const values = run().axes[axis].values.map((_, at) => at);
  return values.filter((at) => !state.hidden[axis].has(at));
}

function shown(group) {
  return group.l.every((value, axis) => !state.hidden[axis].has(value));
}

// Every combination of chosen values of these axes: lists of pairs [axis, value].
function combinations(axes) {
  return axes.reduce(
    (all, axis) => all.flatMap((one) => chosen(axis).map((value) => [...one, [axis, value]])), [[]]);
}

function resetRun(at) {
  const chosenRun = page.runs[at];
  const { axes, competitor } = chosenRun;
  state.run = at;
  state.metric = 0;
  state.hidden = axes.map(() => new Set());
  const many = (axis) => axes[axis].values.length > 1;
  const places = axes.map((_, axis) => axis);
  const numeric = places.filter((axis) => isNumeric(axes[axis]) && many(axis));
  const category = places.filter((axis) => axis !== competitor && many(axis));
  state.x = numeric[0] ?? category[0] ?? competitor ?? 0;
  state.lines = state.x === competitor ? (category[0] ?? -1) : (competitor ?? -1);
  state.logX = "auto";
  state.logY = false;
  state.drawn = "auto";
  state.heat = numeric[0] ?? category[0] ?? competitor ?? 0;
  state.progress = numeric[0] ?? category.find((axis) => axis !== competitor) ?? -1;
  const first = chosenRun.groups.find((group) => !failed(group)) || chosenRun.groups[0];
  state.focus = first ? [...first.l] : [];
  state.round = 1;
  state.latency = null;
  state.column = null;
  state.telemetry = null;
  state.allFacets = new Set();
}

// The combination that single charts show stays within what is chosen.
function fitFocus() {
  const allowed = run().axes.map((_, axis) => chosen(axis));
  const fits = (group) => group.l.every((value, axis) => allowed[axis].includes(value));
  state.focus = state.focus.map((value, axis) => (allowed[axis].includes(value) ? value : allowed[axis][0] ?? value));
  const { competitor, byLabels, groups } = run();
  const there = competitor === null
    ? byLabels.has(state.focus.join())
    : allowed[competitor].some((value) => byLabels.has(state.focus.map((l, axis) => (axis === competitor ? value : l)).join()));
  if (!there) {
    const other = groups.find(fits);
    if (other) state.focus = [...other.l];
  }
}

function change(act) {
  act();
  fitFocus();
  writeAddress();
  for (const listener of listeners) listener();
}

const ADDRESS = ["x", "lines", "logX", "logY", "drawn", "heat", "progress", "round", "latency", "column"];

function writeAddress() {
  const words = new URLSearchParams();
  words.set("run", state.run);
  words.set("metric", metric()?.name ?? "");
  state.hidden.forEach((hidden, axis) => {
    if (hidden.size) words.set("without." + axis, [...hidden].join("."));
  });
  words.set("at", state.focus.join("."));
  for (const key of ADDRESS) if (state[key] !== null) words.set(key, state[key]);
  if (state.telemetry) words.set("telemetry", [...state.telemetry].join(" "));
  try {
    history.replaceState(null, "", "#" + words);
  } catch {
    // A viewer that forbids it shows the page all the same.
  }
}

function readAddress() {
  const words = new URLSearchParams(location.hash.slice(1));
  const place = (text, count) => {
    const at = Number(text);
    return text !== null && text !== "" && Number.isInteger(at) && at >= 0 && at < count ? at : null;
  };
  resetRun(place(words.get("run"), page.runs.length) ?? 0);
  const { axes, metrics } = run();
  const named = metrics.findIndex((m) => m.name === words.get("metric"));
  if (named >= 0) state.metric = named;
  axes.forEach((axis, at) => {
    const hidden = (words.get("without." + at) || "").split(".").map((text) => place(text, axis.values.length));
    state.hidden[at] = new Set(hidden.filter((value) => value !== null));
  });
  const focus = (words.get("at") || "").split(".");
  axes.forEach((axis, at) => {
    state.focus[at] = place(focus[at] ?? null, axis.values.length) ?? state.focus[at];
  });
  for (const key of ["x", "heat"]) state[key] = place(words.get(key), axes.length) ?? state[key];
  for (const key of ["lines", "progress"]) {
    state[key] = words.get(key) === "-1" ? -1 : place(words.get(key), axes.length) ?? state[key];
  }
  state.round = place(words.get("round"), 1e6) || 1;
  state.logY = words.get("logY") === "true";
  if (["auto", "log", "linear"].includes(words.get("logX"))) state.logX = words.get("logX");
  if (["auto", "line", "bar"].includes(words.get("drawn"))) state.drawn = words.get("drawn");
  state.latency = words.get("latency");
  state.column = words.get("column");
  if (words.has("telemetry")) state.telemetry = new Set(words.get("telemetry").split(" ").filter(Boolean));
  fitFocus();
}
