// Ratios against the reference as a map: rows are combinations, columns the values of one axis.

function heatColour(m, ratio, lone) {
  const sure = lone || ratio[3] !== "none";
  if (m.better === "neither" || !sure) return "transparent";
  const good = (ratio[0] > 1) === (m.better === "higher");
  const strength = Math.min(1, Math.abs(Math.log2(Math.max(ratio[0], 1e-6))));
  const share = Math.round(14 + 60 * strength);
  return `color-mix(in srgb, ${css(good ? "--better" : "--worse")} ${share}%, ${css("--surface")})`;
}

function heatCell(group) {
  const m = metric();
  if (!group) return { text: NONE, mark: "none", why: "not measured" };
  if (failed(group)) return { text: "failed", mark: "failed", why: group.f.join("\n"), group };
  const ratio = group.q[state.metric];
  if (!ratio) return { text: NONE, mark: "none", why: "no ratio: the reference has no figure here", group };
  const lone = run().rounds < 3;
  const same = !lone && ratio[3] === "none";
  const text = (same ? "≈ " : "") + ratio[0].toFixed(ratio[0] < 10 ? 2 : 1);
  return { text, colour: heatColour(m, ratio, lone), mark: same ? "same" : "", group,
    why: `${ratioText(ratio)}; ${spreadText(group.s[state.metric], m.unit)}, ${group.n} rounds` };
}

function heatRows() {
  const one = run();
  const rest = one.axes.map((_, axis) => axis).filter((axis) => axis !== state.heat);
  // Competitors under each other.
  rest.sort((a, b) => (a === one.competitor) - (b === one.competitor));
  const isReference = (labels) => one.competitor !== null && labels[one.competitor] === one.reference;
  const cells = chosen(state.heat);
  return combinations(rest).map((pairs) => {
    const fixed = new Map(pairs);
    const at = cells.map((value) => {
      const labels = one.axes.map((_, axis) => (axis === state.heat ? value : fixed.get(axis)));
      return { labels, group: groupAt(one, labels) };
    });
    return { fixed, cells: at, said: rest.filter((axis) => one.axes[axis].values.length > 1).map((axis) => labelText(one, axis, fixed.get(axis))) };
  }).filter((row) => row.cells.some(({ group }) => group))
    .map((row) => ({ ...row, cells: row.cells.filter(({ labels }) => state.heat !== one.competitor || !isReference(labels)) }))
    .filter((row) => state.heat === one.competitor || !isReference(row.cells[0].labels));
}

const HEAT_ROWS = 60;

function drawHeat(host) {
  const one = run();
  const m = metric();
  const rows = heatRows();
  const columns = chosen(state.heat).filter((value) => state.heat !== one.competitor || value !== one.reference);
  const open = state.allFacets.has("heat") || rows.length <= HEAT_ROWS;
  const visible = open ? rows : rows.slice(0, HEAT_ROWS);
  const reference = labelText(one, one.competitor, one.reference);
  const head = `${m.title} against ${reference}`;
  const cell = ({ group }) => {
    const { text, colour, mark, why } = heatCell(group);
    return el("td", { class: mark, style: colour ? { background: colour } : {}, title: why },
      group ? button(text, `heat.${group.l.join(".")}`, () => openPoint(group)) : text);
  };
  const csv = () => csvText(
    [...one.axes.map((axis, at) => ({ title: axis.name, csv: (row) => labelText(one, at, row.l[at]) })),
      ...["ratio", "low", "high", "verdict"].map((title, at) => ({ title, csv: (row) => row.q[state.metric]?.[at] }))],
    rows.flatMap((row) => row.cells.map(({ group }) => group)).filter(Boolean));
  fill(host,
    el("p", {}, `${head}: 1.20 is a fifth more. `, m.better === "neither" ? "Neither direction is better. " : "",
      one.rounds < 3 ? `${one.rounds < 2 ? "One round" : "Two rounds"}: nobody knows which differences are noise.` : "≈: no difference beyond the noise."),
    el("div", { class: "choices" }, metricChoice("heat.metric"),
      choice("Columns", "heat.columns", axisChoices(-1), state.heat, (value) => change(() => { state.heat = Number(value); })),
      m.better === "neither" ? null : el("span", { class: "scale" }, el("i", { class: "worse" }), "worse", el("i", { class: "better" }), "better")),
    el("div", { class: "tools" },
      button("Copy as CSV", "heat.copy", async (event) => {
        const pressed = event.currentTarget;
        pressed.textContent = (await copy(csv())) ? "Copied" : "Not permitted";
        setTimeout(() => { pressed.textContent = "Copy as CSV"; }, 1500);
      }),
      button("PNG", "heat.png", () => heatPicture(head, columns, visible))),
    visible.length
      ? el("div", { class: "scroll" }, el("table", { class: "heat" },
        el("thead", {}, el("tr", {}, el("th", { scope: "col" }, ""), columns.map((value) => el("th", { scope: "col" }, labelText(one, state.heat, value))))),
        el("tbody", {}, visible.map((row) => el("tr", {}, el("th", { scope: "row" }, row.said.join(" · ") || reference), row.cells.map(cell))))))
      : el("p", { class: "hint" }, "No combination beside the reference is chosen."),
    open ? null : el("p", { class: "more" }, `${HEAT_ROWS} of ${rows.length} rows. `,
      button("Show all", "heat.all", () => change(() => state.allFacets.add("heat")))));
}

function heatPicture(head, columns, rows) {
  const one = run();
  const { margin, width, text } = PICTURE;
  const names = rows.map((row) => row.said.join(" · ") || labelText(one, one.competitor, one.reference));
  const context = document.createElement("canvas").getContext("2d");
  context.font = `${text}px ${FONT}`;
  const first = Math.min(700, Math.max(...names.map((name) => context.measureText(name).width)) + 24);
  const wide = (width - 2 * margin - first) / Math.max(1, columns.length);
  const tall = 52;
  const title = { title: head, subtitle: `${one.axes[state.heat].title} across`, legend: [] };
  savePicture("ratios-" + metric().name, title, (rows.length + 1) * tall, (to, top) => {
    to.font = `${text}px ${FONT}`;
    const centred = (words, column, row) => {
      const size = to.measureText(words).width;
      to.fillText(words, margin + first + column * wide + Math.max(4, (wide - size) / 2), top + (row + 0.66) * tall, wide - 8);
    };
    columns.forEach((value, at) => centred(labelText(one, state.heat, value), at, 0));
    rows.forEach((row, at) => {
      to.fillStyle = css("--text");
      to.fillText(names[at], margin, top + (at + 1.66) * tall, first - 16);
      row.cells.forEach(({ group }, column) => {
        const { text: words, mark, colour } = heatCell(group);
        to.fillStyle = mark === "failed" ? css("--bad") : colour && colour !== "transparent" ? colour : css("--raised");
        to.fillRect(margin + first + column * wide + 2, top + (at + 1) * tall + 2, wide - 4, tall - 4);
        to.fillStyle = mark === "failed" ? css("--surface") : css("--text");
        centred(words, column, at + 1);
      });
    });
  });
}
