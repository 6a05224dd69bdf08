// Pictures for articles: a chart with its title, legend and origin on one canvas, as PNG.

const PICTURE = { width: 1920, margin: 48, title: 36, text: 25 };
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", "DejaVu Sans", Arial, sans-serif';

// Legend entries, as [colour, dash, text], in lines that fit; returns the height they take.
function drawLegend(context, entries, top, paint) {
  const { margin, width, text } = PICTURE;
  let [x, y] = [margin, top];
  for (const [colour, dash, name] of entries) {
    const wide = 64 + context.measureText(name).width + 40;
    if (x + wide > width - margin && x > margin) [x, y] = [margin, y + text * 1.6];
    if (paint) {
      context.strokeStyle = colour;
      context.lineWidth = 6;
      context.setLineDash(dash.map((length) => length * 2));
      context.beginPath();
      context.moveTo(x, y - text * 0.35);
      context.lineTo(x + 52, y - text * 0.35);
      context.stroke();
      context.setLineDash([]);
      context.fillText(name, x + 64, y);
    }
    x += wide;
  }
  return y - top;
}

// `body(context, top)` draws below the head; `height` is what it takes.
function savePicture(name, { title, subtitle, legend }, height, body) {
  const { margin, width } = PICTURE;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  const text = `${PICTURE.text}px ${FONT}`;
  context.font = text;
  const legendTop = margin + PICTURE.title + (subtitle ? 44 : 0) + 52;
  const top = legend.length ? legendTop + drawLegend(context, legend, legendTop, false) + 28 : legendTop - 20;
  canvas.width = width;
  canvas.height = top + height + 70;
  context.fillStyle = css("--surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.fillStyle = css("--text");
  context.font = `600 ${PICTURE.title}px ${FONT}`;
  context.fillText(title, margin, margin + PICTURE.title * 0.8, width - 2 * margin);
  context.font = text;
  context.fillStyle = css("--text-soft");
  if (subtitle) context.fillText(subtitle, margin, margin + PICTURE.title + 38, width - 2 * margin);
  context.fillStyle = css("--text");
  if (legend.length) drawLegend(context, legend, legendTop, true);
  body(context, top);
  context.fillStyle = css("--text-soft");
  context.font = `21px ${FONT}`;
  context.fillText([run().title, date(run().started_unix_s), run().tidelab && `tidelab ${run().tidelab}`].filter(Boolean).join(" · "), margin, canvas.height - 28, width - 2 * margin);
  return new Promise((done) => canvas.toBlob((blob) => {
    save(fileName(run().name, name) + ".png", blob);
    done(blob.size);
  }, "image/png"));
}
