// Looks at the pages of `tidelab report` in a real browser: node report-browser.mjs SAMPLES SCREENSHOTS.
// No error on the console, no request to the network, every control changes what is seen, names from data stay text,
// nothing is wider than a phone. Screenshots and a print-out are left for people. The last line counts.

import { existsSync, mkdirSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { Browser } from "./devtools.mjs";

const [samples, pictures] = process.argv.slice(2).map((path) => resolve(path));
const PROGRAM = process.env.CHROMIUM || "/usr/bin/chromium";
const DESKTOP = { width: 1360, height: 900 };
const PHONE = { width: 360, height: 780, phone: true };

let passed = 0;
let failed = 0;
function check(fact, what) {
  if (fact) passed += 1;
  else {
    failed += 1;
    console.log(`FAILED: ${what}`);
  }
}

// Runs in the page: what a reader sees of charts and tables; downloads and print-outs count too. Only what is visible,
// not which button is pressed.
const PROBE = `
window.saved = [];
const makeUrl = URL.createObjectURL;
URL.createObjectURL = (blob) => { window.saved.push([blob.type, blob.size]); window.lastBlob = blob; return makeUrl.call(URL, blob); };
window.print = () => { window.saved.push(["print", 0]); };
window.seen = () => {
  let hash = 0;
  const mix = (text) => { for (let i = 0; i < text.length; i++) hash = (Math.imul(hash, 31) + text.charCodeAt(i)) | 0; };
  // Charts by their shape on a small canvas: encoding each whole would take most of the test's time.
  const small = document.createElement("canvas");
  [small.width, small.height] = [160, 80];
  const context = small.getContext("2d", { willReadFrequently: true });
  for (const canvas of document.querySelectorAll("main canvas")) {
    context.clearRect(0, 0, 160, 80);
    context.drawImage(canvas, 0, 0, 160, 80);
    for (const byte of new Uint32Array(context.getImageData(0, 0, 160, 80).data.buffer)) hash = (Math.imul(hash, 31) + byte) | 0;
    mix(canvas.width + ",");
  }
  for (const part of document.querySelectorAll("#top h1, #top .facts, main table, main figcaption, main .hint, main .file, dialog[open]")) mix(part.textContent + "|");
  mix(document.querySelectorAll("main .tools").length + ":" + document.documentElement.dataset.theme);
  mix([...document.querySelectorAll(".tools button")].map((b) => b.textContent).join());
  mix(JSON.stringify(window.saved));
  return hash;
};
window.control = (key) => document.querySelector('[data-key="' + CSS.escape(key) + '"]');
true`;

async function fresh(tab, page, view = DESKTOP, address = "") {
  await tab.open(pathToFileURL(page).href + address, view);
  await tab.run(PROBE);
  await settled(tab);
}

// Charts are drawn when their place has a width, a moment after the page.
async function settled(tab) {
  await tab.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))");
}

async function changed(tab, before, limitMs = 1500) {
  const end = Date.now() + limitMs;
  do {
    await settled(tab);
    if ((await tab.run("seen()")) !== before) return true;
  } while (Date.now() < end);
  return false;
}

// One of each kind of control: keys that differ in numbers only are one kind.
function kinds(controls) {
  const found = new Map();
  for (const control of controls) {
    const kind = control.key.replace(/[0-9]+/g, "0").replace(/^seconds\.panel\..*/, "seconds.panel");
    const members = found.get(kind) || [];
    if (members.length < 1) found.set(kind, [...members, control]);
  }
  return [...found.values()].flat();
}

const LIST = `[...document.querySelectorAll("[data-key]")].filter((c) => !c.disabled && c.closest("[hidden]") === null && !c.closest("dialog"))
  .map((c) => ({ key: c.dataset.key, tag: c.tagName + (c.type === "checkbox" ? ".tick" : "") }))`;

async function everyControl(tab, page, name, address, only = /./) {
  await fresh(tab, page, DESKTOP, address);
  const controls = kinds(await tab.run(LIST)).filter(({ key }) => only.test(key));
  for (const { key, tag } of controls) {
    if (!(await tab.run(`Boolean(control(${JSON.stringify(key)}))`))) await fresh(tab, page, DESKTOP, address);
    const here = `control(${JSON.stringify(key)})`;
    // Inside details that are closed nothing is seen.
    await tab.run(`for (let d = ${here}.closest("details"); d; d = d.parentElement.closest("details")) d.open = true; true`);
    const before = await tab.run("seen()");
    let works = false;
    if (tag === "SELECT") {
      const values = await tab.run(`[...${here}.options].filter((o) => !o.selected).map((o) => o.value)`);
      if (values.length === 0) continue;
      for (const value of values.slice(0, 2)) {
        await tab.run(`${here}.value = ${JSON.stringify(value)}; ${here}.dispatchEvent(new Event("change", { bubbles: true })); true`);
        works = works || (await changed(tab, before, 400));
        if (works) break;
      }
    } else if (tag.startsWith("INPUT") && !tag.endsWith(".tick")) {
      await tab.run(`${here}.value = "cache"; ${here}.dispatchEvent(new Event("input", { bubbles: true })); true`);
      works = await changed(tab, before);
      await tab.run(`${here}.value = ""; ${here}.dispatchEvent(new Event("input", { bubbles: true })); true`);
    } else {
      await tab.run(`${here}.click(); true`);
      works = await changed(tab, before);
    }
    check(works, `${name}: ${tag} ${key} changes nothing`);
    await tab.run(`document.querySelector("dialog[open]")?.close(); true`);
  }
  console.log(`${name}: ${controls.length} controls`);
}

async function hoverAndPick(tab, page, name) {
  await fresh(tab, page);
  const place = await tab.run(`(() => {
    const over = document.querySelector("#curves .u-over");
    over.scrollIntoView({ block: "center" });
    const { left, top, width, height } = over.getBoundingClientRect();
    return [left + width * 0.5, top + height * 0.4];
  })()`);
  await tab.mouse("mouseMoved", place[0] - 3, place[1]);
  await tab.mouse("mouseMoved", ...place);
  await tab.until(`[...document.querySelectorAll("#curves .tip")].some((tip) => !tip.hidden && tip.querySelectorAll("tr").length > 1)`, `${name}: a tooltip`);
  await tab.mouse("mousePressed", ...place);
  await tab.mouse("mouseReleased", ...place);
  await tab.until(`document.querySelector("dialog").open`, `${name}: a point that was clicked`);
  const links = await tab.run(`[...document.querySelectorAll("dialog .raw a")].map((a) => a.href)`);
  check(links.length > 1 && links.every((href) => existsSync(fileURLToPath(href))), `${name}: a raw file is not where its link says: ${links}`);
  passed += 2;
  await tab.run("control('point.seconds').click(); true");
  check(!(await tab.run(`document.querySelector("dialog").open`)), `${name}: the point's seconds are shown`);
}

async function zoom(tab, page, name) {
  await fresh(tab, page);
  const place = await tab.run(`(() => {
    const over = document.querySelector("#seconds .u-over");
    over.scrollIntoView({ block: "center" });
    const { left, top, width, height } = over.getBoundingClientRect();
    return [left + width * 0.3, left + width * 0.6, top + height * 0.5];
  })()`);
  const before = await tab.run("seen()");
  await tab.mouse("mouseMoved", place[0], place[2]);
  await tab.mouse("mousePressed", place[0], place[2]);
  await tab.send("Input.dispatchMouseEvent", { type: "mouseMoved", x: place[1], y: place[2], button: "left", buttons: 1 });
  await tab.mouse("mouseReleased", place[1], place[2]);
  check(await changed(tab, before), `${name}: dragging over the seconds shows a part of them`);
}

async function facts(tab, page) {
  await fresh(tab, page);
  check((await tab.run("window.pwned")) === undefined, "a name from data ran");
  check((await tab.run("document.title")).includes("</script>"), "the title is text");
  check((await tab.run("document.querySelectorAll('main img, main b b').length")) === 0, "a note became markup");
  check((await tab.run("document.querySelectorAll('#top .alarm').length")) > 0, "failures are named at the top");
  const failures = await tab.run("document.querySelectorAll('#failures tbody tr').length");
  check(failures === 6, `failed measurements listed: ${failures}`);
  check((await tab.run("getComputedStyle(document.querySelector('#failures td.failed')).color")) === "rgb(192, 28, 40)", "failures are red");
  const heat = await tab.run("[...document.querySelectorAll('#heat td.failed')].length");
  check(heat === 2, `failed combinations in the map: ${heat}`);
  // The figure of what failed is nowhere: not in the table of results either.
  const rows = await tab.run(`[...document.querySelectorAll("#results tbody tr.failed")].map((row) => row.textContent)`);
  check(rows.length === 2 && rows.every((text) => /failed/.test(text) && !/1\/s/.test(text)), `failed rows: ${rows}`);
  // Hiding a value and asking for all of them again is where it began.
  const before = await tab.run("seen()");
  await tab.run("control('axis.0.1').click(); true");
  check(await changed(tab, before), "a value that is hidden is gone");
  await tab.run("control('axis.0.all').click(); true");
  await settled(tab);
  await tab.until(`seen() === ${before}`, "all values are there again");
  // The address shows the same again.
  await tab.run("control('axis.1.2').click(); true");
  await settled(tab);
  const [address, state] = await tab.run("[location.href, seen()]");
  await tab.open(address, DESKTOP);
  await tab.run(PROBE);
  await settled(tab);
  await tab.until(`seen() === ${state}`, "an address shows what was chosen");
}

// A chart and the map as pictures for an article.
async function exported(tab, page) {
  await fresh(tab, page);
  for (const [key, name] of [["curve-transactions_per_s-1.png", "chart"], ["heat.png", "map"], ["seconds-transactions_per_s.png", "seconds"]]) {
    await tab.run(`window.lastBlob = null; control(${JSON.stringify(key)}).click(); true`);
    await tab.until("window.lastBlob", `the picture of ${key}`);
    const text = await tab.run(`new Promise((done) => {
      const reader = new FileReader();
      reader.onload = () => done(reader.result.split(",")[1]);
      reader.readAsDataURL(window.lastBlob);
    })`);
    const bytes = Buffer.from(text, "base64");
    writeFileSync(join(pictures, `picture-${name}.png`), bytes);
    check(bytes.length > 20000 && bytes.readUInt32BE(16) === 1920, `the picture of ${key} has ${bytes.length} bytes`);
  }
}

async function narrow(tab, page, name, address) {
  for (const dark of [false, true]) {
    await fresh(tab, page, { ...PHONE, dark }, address);
    const wide = await tab.run(`document.documentElement.scrollWidth`);
    check(wide <= PHONE.width, `${name}: ${wide} pixels wide on a phone of ${PHONE.width}`);
  }
}

async function shoot(tab, page, name, address) {
  for (const [form, view] of [["desktop", DESKTOP], ["phone", PHONE]]) {
    for (const dark of [false, true]) {
      await fresh(tab, page, { ...view, dark }, address);
      writeFileSync(join(pictures, `${name}-${form}-${dark ? "dark" : "light"}.png`), await tab.picture());
    }
  }
  await fresh(tab, page, DESKTOP, address);
  const { data } = await tab.send("Page.printToPDF", { printBackground: true });
  writeFileSync(join(pictures, `${name}.pdf`), Buffer.from(data, "base64"));
  check(data.length > 10000, `${name}: the print-out is empty`);
}

async function main() {
  if (!existsSync(PROGRAM)) throw new Error(`no Chromium is in ${PROGRAM}: make test-report installs Debian's, or CHROMIUM names one`);
  mkdirSync(pictures, { recursive: true });
  const engines = join(samples, "engines");
  const folder = readdirSync(engines).find((name) => name.startsWith("sample-engines-"));
  const pages = { engines: join(engines, folder, "report.html"), several: join(samples, "several", "both.html") };
  const browser = new Browser(PROGRAM);
  try {
    const tab = await browser.tab();
    await facts(tab, pages.engines);
    await hoverAndPick(tab, pages.engines, "engines");
    await zoom(tab, pages.engines, "engines");
    await everyControl(tab, pages.engines, "engines");
    await everyControl(tab, pages.several, "versions", "#run=1", /^(run|axis|progress|heat|metric|curves)/);
    await narrow(tab, pages.engines, "engines");
    await narrow(tab, pages.several, "versions", "#run=1");
    await exported(tab, pages.engines);
    await shoot(tab, pages.engines, "engines");
    await shoot(tab, pages.several, "versions", "#run=1");
    check(tab.errors.length === 0, `errors on the console: ${[...new Set(tab.errors)].slice(0, 5).join(" | ")}`);
    check(tab.requests.length === 0, `requests to the network: ${[...new Set(tab.requests)].slice(0, 5).join(" | ")}`);
  } finally {
    await browser.close();
  }
}

const start = Date.now();
try {
  await main();
} catch (error) {
  check(false, error.message);
}
console.log(`pictures are in ${pictures}, ${((Date.now() - start) / 1000).toFixed(0)} s`);
console.log(`report: ${passed} passed, ${failed} failed`);
process.exit(failed ? 1 : 0);
