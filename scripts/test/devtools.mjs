// A headless Chromium by the DevTools protocol over pipes: what report-browser.mjs needs of it, and no more.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const ANSWER_MS = 30000;

export class Browser {
  constructor(program) {
    this.profile = mkdtempSync(join(tmpdir(), "report-browser-"));
    const options = [
      "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
      "--no-first-run", "--disable-extensions", "--disable-background-networking", "--disable-component-update",
      "--disable-sync", "--mute-audio", "--force-color-profile=srgb", `--user-data-dir=${this.profile}`, "about:blank",
    ];
    this.child = spawn(program, options, { stdio: ["ignore", "ignore", "pipe", "pipe", "pipe"] });
    this.complaints = "";
    this.child.stderr.on("data", (bytes) => { this.complaints = (this.complaints + bytes).slice(-4000); });
    this.waiting = new Map();
    this.listeners = [];
    this.next = 1;
    let left = "";
    this.child.stdio[4].setEncoding("utf8");
    this.child.stdio[4].on("data", (text) => {
      const messages = (left + text).split("\0");
      left = messages.pop();
      for (const message of messages) this.take(JSON.parse(message));
    });
    this.child.on("exit", (code) => {
      for (const { reject } of this.waiting.values()) reject(new Error(`chromium ended (${code}): ${this.complaints}`));
    });
  }

  take(message) {
    const waiting = this.waiting.get(message.id);
    if (waiting) {
      this.waiting.delete(message.id);
      clearTimeout(waiting.timer);
      if (message.error) waiting.reject(new Error(`${waiting.method}: ${message.error.message}`));
      else waiting.resolve(message.result);
    } else {
      for (const listener of this.listeners) listener(message);
    }
  }

  send(method, parameters, sessionId) {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`${method}: no answer after ${ANSWER_MS / 1000} s`)), ANSWER_MS);
      this.waiting.set(id, { resolve, reject, timer, method });
      this.child.stdio[3].write(JSON.stringify({ id, method, params: parameters || {}, sessionId }) + "\0");
    });
  }

  async tab() {
    const { targetId } = await this.send("Target.createTarget", { url: "about:blank" });
    const { sessionId } = await this.send("Target.attachToTarget", { targetId, flatten: true });
    const tab = new Tab(this, sessionId);
    for (const domain of ["Page", "Runtime", "Log", "Network"]) await tab.send(domain + ".enable");
    return tab;
  }

  async close() {
    const gone = new Promise((done) => this.child.once("exit", done));
    await this.send("Browser.close").catch(() => this.child.kill());
    await gone;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }
}

class Tab {
  constructor(browser, session) {
    this.browser = browser;
    this.session = session;
    // What a page must not do: errors on the console, requests that leave the machine.
    this.errors = [];
    this.requests = [];
    browser.listeners.push((message) => message.sessionId === session && this.take(message));
  }

  take({ method, params }) {
    if (method === "Runtime.exceptionThrown") {
      const { text, exception } = params.exceptionDetails;
      this.errors.push(exception?.description || text);
    } else if (method === "Runtime.consoleAPICalled" && ["error", "warning", "assert"].includes(params.type)) {
      this.errors.push(params.args.map((argument) => argument.value ?? argument.description).join(" "));
    } else if (method === "Log.entryAdded" && ["error", "warning"].includes(params.entry.level)) {
      this.errors.push(params.entry.text);
    } else if (method === "Network.requestWillBeSent") {
      const { url } = params.request;
      if (!/^(file|data|blob|about):/.test(url)) this.requests.push(url);
    }
  }

  send(method, parameters) {
    return this.browser.send(method, parameters, this.session);
  }

  async run(expression) {
    const { result, exceptionDetails } = await this.send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
    if (exceptionDetails) throw new Error(`${expression.slice(0, 200)}: ${exceptionDetails.exception?.description || exceptionDetails.text}`);
    return result.value;
  }

  async until(expression, what, limitMs = 8000) {
    const end = Date.now() + limitMs;
    while (!(await this.run(expression))) {
      if (Date.now() > end) throw new Error(`${what}: not within ${limitMs / 1000} s`);
      await new Promise((done) => setTimeout(done, 25));
    }
  }

  async open(url, { width, height, dark, phone }) {
    await this.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: phone ? 2 : 1, mobile: Boolean(phone) });
    await this.send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: dark ? "dark" : "light" }] });
    await this.send("Page.navigate", { url: "about:blank" });
    await this.send("Page.navigate", { url });
    await this.until("document.documentElement && document.documentElement.dataset.ready === 'true' && document.readyState === 'complete'", url);
  }

  mouse(type, x, y) {
    return this.send("Input.dispatchMouseEvent", { type, x, y, button: type === "mouseMoved" ? "none" : "left", clickCount: type === "mouseMoved" ? 0 : 1 });
  }

  async picture() {
    const { cssContentSize: { width, height } } = await this.send("Page.getLayoutMetrics");
    const clip = { x: 0, y: 0, width, height: Math.min(height, 12000), scale: 1 };
    const { data } = await this.send("Page.captureScreenshot", { format: "png", captureBeyondViewport: true, clip });
    return Buffer.from(data, "base64");
  }
}
