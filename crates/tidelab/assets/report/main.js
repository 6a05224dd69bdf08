// The parts of the page in their order; each is drawn anew when a choice changes.

const severalCompetitors = (n) => run().competitor !== null && run().axes[run().competitor].values.length >= n;

const parts = [
  { id: "glance", title: "In short", there: () => severalCompetitors(2) && metric(), draw: drawGlance },
  { id: "curves", title: "Charts", there: () => true, draw: drawCurves },
  { id: "heat", title: "Ratios", there: () => severalCompetitors(2) && metric(), draw: drawHeat },
  { id: "progression", title: "Progression", there: () => severalCompetitors(3) && metric() && versions(run().axes[run().competitor].values), draw: drawProgression },
  { id: "results", title: "Results", there: () => run().groups.length > 0, draw: drawResults },
  { id: "driver", title: "Driver", there: () => run().driver.length > 0, draw: drawDriver },
  { id: "latency", title: "Latency", there: () => latencySources().length > 0, draw: drawLatency },
  { id: "seconds", title: "By second", there: () => run().series.length > 0, draw: drawSeconds },
  { id: "failures", title: "Failures", there: () => run().failed.length > 0, draw: drawFailures, still: true },
  { id: "cells", title: "Measurements", there: () => run().cells.length > 0, draw: drawCells },
  { id: "setup", title: "Setup and method", there: () => true, draw: drawSetup, still: true },
];

function drawAll() {
  const focused = document.activeElement?.dataset?.key;
  drawTop(document.getElementById("top"));
  drawFilters(document.getElementById("filters"));
  for (const part of parts) {
    const section = document.getElementById(part.id);
    section.hidden = !part.there();
    // What no choice changes keeps what a reader opened in it.
    const again = !part.still || section.dataset.run !== String(state.run);
    section.dataset.run = state.run;
    if (!section.hidden && again) part.draw(section.querySelector(".body"));
  }
  sweepCharts();
  if (focused) document.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}

add(document.getElementById("main"), parts.map((part) =>
  el("section", { id: part.id }, el("h2", {}, part.title), el("div", { class: "body" }))));
add(document.body, [el("footer", {}, `Made by tidelab ${page.tidelab}, ${date(page.written_unix_s)}. Charts: uPlot (MIT licence, in this file).`)]);
readAddress();
listeners.push(drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
drawAll();
document.documentElement.dataset.ready = "true";
