// What was measured each second in one combination and round: the load above, telemetry below, one time scale.

const PANELS = 3;

function focusCells() {
  return focusGroups().map(({ value, group }) => {
    const cells = group.c.map((at) => run().cells[at]);
    return { value, group, cell: cells.find((cell) => cell.r === state.round) };
  }).filter(({ cell }) => cell);
}

function drawSeconds(host) {
  const one = run();
  const rounds = [...new Set(focusGroups().flatMap(({ group }) => group.c.map((at) => one.cells[at].r)))].sort((a, b) => a - b);
  if (rounds.length && !rounds.includes(state.round)) state.round = rounds[0];
  const there = focusCells();
  const names = [...new Set(there.flatMap(({ cell }) => cell.s.flatMap((at) => one.series[at].columns)))];
  const options = el("div", { class: "choices" }, focusChoices("seconds"),
    rounds.length > 1 ? choice("Round", "seconds.round", rounds.map((r) => [r, r]), state.round, (value) => change(() => { state.round = Number(value); })) : null,
    names.length ? choice("Above", "seconds.column", names.map((name) => [name, columnLabel(name)]), mainColumn(names), (value) => change(() => { state.column = value; })) : null);
  if (!names.length) return fill(host, options, el("p", { class: "hint" }, "This combination has no series."));
  const main = mainColumn(names);
  const below = names.filter((name) => name !== main);
  // Telemetry that never moves is not drawn unless asked for.
  const moves = (name) => there.some(({ cell }) => {
    const found = column(one, cell, name);
    return found && found[1].some((value) => value !== found[1][0]);
  });
  const panels = state.telemetry
    ? below.filter((name) => state.telemetry.has(name))
    : below.filter(moves).slice(0, PANELS);
  const toggle = (name) => change(() => {
    state.telemetry = new Set(panels);
    state.telemetry.has(name) ? state.telemetry.delete(name) : state.telemetry.add(name);
  });
  const fewer = Math.max(0, ...there.flatMap(({ cell }) => cell.s.map((at) => one.series[at].rows)));
  fill(host, options,
    fewer > page.points
      ? el("p", { class: "hint" }, `Series of ${number(fewer)} seconds are drawn with ${page.points} points, the least and the greatest value of each part; the files have all.`)
      : null,
    el("p", { class: "hint" }, "Drag over a chart to see a part of the time in all of them, double-click to see all."),
    secondsChart(main, there, 300),
    below.length
      ? el("div", { class: "values telemetry" }, below.map((name) =>
        button(columnLabel(name), "seconds.panel." + name, () => toggle(name), { class: "value", "aria-pressed": String(panels.includes(name)) })))
      : null,
    panels.map((name) => secondsChart(name, there, 150)),
    el("ul", { class: "files" }, there.map(({ value, cell }) =>
      el("li", { class: cell.f.length ? "failed" : null }, competitorLine(value).name, ": ", cell.f.length ? cell.f.join("; ") + " " : "", rawLinks(one, cell)))));
}

function mainColumn(names) {
  if (names.includes(state.column)) return state.column;
  const first = run().metrics[0]?.name;
  return names.includes(first) ? first : names[0];
}

function columnLabel(name) {
  const unit = columnUnit(name);
  return columnTitle(name) + (unit ? ", " + unit : "");
}

function secondsChart(name, there, height) {
  const lines = there.flatMap(({ value, cell }) => {
    const found = column(run(), cell, name);
    if (!found) return [];
    const line = competitorLine(value);
    return [{ ...line, name: line.name + (cell.f.length ? " (failed)" : ""), times: found[0], values: found[1] }];
  });
  return chart({
    id: "seconds-" + name,
    title: columnLabel(name),
    subtitle: [focusTitle(), "round " + state.round].filter(Boolean).join(" · "),
    x: { kind: "time", title: height > 200 ? "seconds since the start" : "", unit: "s", tip: (x) => `${number(x)} s` },
    y: { unit: columnUnit(name) },
    lines, named: true, below: height < 200, height, sync: "seconds",
  });
}
