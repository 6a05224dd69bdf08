// Elements are made from values; text from data becomes text nodes and attributes, never markup.

function el(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") {
      for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    } else if (name === "style") {
      for (const [property, set] of Object.entries(value)) element.style.setProperty(property, set);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

function fill(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

// A button; `key` lets the focus come back after the page was drawn anew.
function button(text, key, act, more) {
  return el("button", Object.assign({ type: "button", "data-key": key, on: { click: act } }, more), text);
}

// A choice of one; options are pairs [value, text].
function choice(label, key, options, chosen, act) {
  const select = el("select", { "data-key": key, on: { change: (event) => act(event.target.value) } },
    options.map(([value, text]) => el("option", { value, selected: String(value) === String(chosen) }, text)));
  return el("label", { class: "choice" }, el("span", {}, label), select);
}

// A box to tick.
function tick(label, key, ticked, act) {
  return el("label", { class: "tick" },
    el("input", { type: "checkbox", "data-key": key, checked: ticked, on: { change: (e) => act(e.target.checked) } }),
    el("span", {}, label));
}

function save(name, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = el("textarea", { class: "off-screen" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}

function fileName(...parts) {
  return parts.filter(Boolean).join("-").replace(/[^A-Za-z0-9._-]+/g, "-").replace(/-+/g, "-").slice(0, 120);
}
