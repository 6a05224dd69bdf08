// Every single measurement, and those that failed.

function drawFailures(host) {
  const one = run();
  const broken = one.failed;
  const columns = [
    ...labelColumns(),
    { title: "Round", right: true, csv: (cell) => cell.r },
    { title: "Why", csv: (cell) => cell.f.join("; ") || "there are no figures", mark: () => "failed" },
    { title: "Raw files", csv: (cell) => "cells/" + cell.d, show: (cell) => rawLinks(one, cell) },
  ];
  fill(host,
    el("p", {}, "A failed measurement counts for nothing, and the combination that it belongs to has no median: the other rounds do not stand in for it."),
    table("failures", columns, broken));
}

function labelColumns() {
  const one = run();
  return one.axes.map((axis, at) => ({
    title: axis.title, name: axis.name, csv: (cell) => (isNumeric(axis) ? labelNumber(axis.values[cell.l[at]]) : labelText(one, at, cell.l[at])),
    show: (cell) => (at === one.competitor ? competitorName(cell.l[at]) : labelText(one, at, cell.l[at])),
  }));
}

function drawCells(host) {
  const one = run();
  const cells = one.cells.filter(shown);
  const metrics = one.metrics.map((m, at) => ({ m, at })).filter(({ at }) => cells.some((cell) => cell.v[at] !== null));
  const columns = [
    { title: "#", name: "order", right: true, csv: (cell) => cell.o + 1 },
    ...labelColumns(),
    { title: "Round", right: true, csv: (cell) => cell.r },
    { title: "Status", csv: (cell) => (one.failed.includes(cell) ? "failed" : "ok"), mark: (cell) => (one.failed.includes(cell) ? "failed" : null) },
    ...metrics.map(({ m, at }) => ({
      title: m.title + (m.unit ? ", " + m.unit : ""), name: m.name, right: true, csv: (cell) => cell.v[at], show: (cell) => number2(cell.v[at], m.unit),
    })),
    { title: "Raw files", csv: (cell) => "cells/" + cell.d, show: (cell) => rawLinks(one, cell) },
  ];
  fill(host, el("p", {}, "In the order in which they were measured, with all figures as they were written."),
    table("cells", columns, cells, (cell) => (one.failed.includes(cell) ? "failed" : null)));
}
