// What is behind a point: its rounds with all figures, why some failed, and their raw files.

function openPoint(group) {
  const dialog = document.getElementById("point");
  const { run: owner } = group;
  const cells = group.c.map((at) => owner.cells[at]);
  const metrics = owner.metrics.map((m, at) => [m, at]).filter(([, at]) => cells.some((cell) => cell.v[at] !== null));
  const rows = metrics.map(([m, at]) => ({ m, at, spread: group.s[at], ratio: group.q[at] }));
  const title = owner.axes.map((axis, at) => (axis.role === "number" ? countText(owner, at, group.l[at]) : labelText(owner, at, group.l[at]))).join(" · ");
  const ofRounds = cells.map((cell, place) => ({
    title: "Round " + cell.r, right: true,
    csv: ({ at }) => cell.v[at], show: ({ m, at }) => number2(cell.v[at], m.unit),
    mark: () => (cells[place].f.length ? "failed" : null),
  }));
  const reference = owner.competitor === null ? "" : labelText(owner, owner.competitor, owner.reference);
  const figures = table("point", [
    { title: "Figure", csv: ({ m }) => m.title + (m.unit ? ", " + m.unit : ""), show: ({ m }) => m.title + (m.unit && !isBytes(m.unit) ? ", " + m.unit : "") },
    { title: "Median, least to greatest", right: true, csv: ({ spread }) => spread?.[0], show: ({ m, spread }) => spreadCell(spread, m.unit) },
    { title: reference ? `Against ${reference}` : "Ratio", right: true, csv: ({ ratio }) => ratio?.[0], show: ({ ratio }) => ratioCell(ratio) },
    ...ofRounds,
  ], rows);
  const toSeconds = cells.some((cell) => cell.s.length)
    ? button("Show its seconds", "point.seconds", () => {
      dialog.close();
      change(() => { state.focus = [...group.l]; state.round = cells[0].r; });
      document.getElementById("seconds")?.scrollIntoView();
    })
    : null;
  fill(dialog, el("form", { method: "dialog" }, button("Close", "point.close", () => dialog.close(), { class: "close" })),
    el("h2", {}, title),
    group.f.length ? el("ul", { class: "reasons" }, group.f.map((why) => el("li", {}, why))) : null,
    figures,
    el("h3", {}, "Raw files"),
    el("ul", { class: "files" }, cells.map((cell) => el("li", {}, `Round ${cell.r}: `, rawLinks(owner, cell)))),
    toSeconds);
  if (!dialog.open) dialog.showModal();
}
