// Helpers of all charts: elements, number formats, scales, and one tooltip for mouse and keyboard.
const COLOURS = 8;
const NBSP = "\u00a0";
const data = JSON.parse(document.getElementById("data").textContent);

function html(parent, name, attributes = {}, text = null) {
  return fill(parent, document.createElement(name), attributes, text);
}

function svg(parent, name, attributes = {}, text = null) {
  return fill(parent, document.createElementNS("http://www.w3.org/2000/svg", name), attributes, text);
}

function fill(parent, element, attributes, text) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== null) element.textContent = text;
  if (parent) parent.append(element);
  return element;
}

const colourOf = (run) => `run-${data.colours[run] % COLOURS}`;
const markNumber = (run) => (data.colours[run] + Math.floor(data.colours[run] / COLOURS)) % COLOURS;
const markOf = (run) => data.marks[markNumber(run)];

function key(parent, run) {
  html(parent, "i", { class: `key ${colourOf(run)} mark-${markNumber(run)}`, "aria-hidden": "true" });
}

// Add a legend: samples of dashes with their names.
function legend(box, names) {
  names.forEach((name, index) => {
    const entry = html(box, "span", { class: "entry" });
    html(entry, "i", { class: `dash dash-${index}`, "aria-hidden": "true" });
    entry.append(name);
  });
}

// Return the SVG element of a chart, with a title and a description for screen readers.
let surfaces = 0;
function drawing(parent, figure, viewBox, name, about, part = "") {
  surfaces += 1;
  const [title, description] = [`title-${surfaces}`, `about-${surfaces}`];
  const surface = svg(parent, "svg", { viewBox, role: "img", class: name, "aria-labelledby": title, "aria-describedby": description });
  svg(surface, "title", { id: title }, part ? `${figure.title}: ${part}` : figure.title);
  svg(surface, "desc", { id: description }, `${figure.question} ${about}`);
  return surface;
}

// Number formats, the same as in number_text.py; a test compares them.

function grouped(value, digits) {
  const [whole, part] = Math.abs(value).toFixed(digits).split(".");
  const sign = value < 0 && Number(value.toFixed(digits)) !== 0 ? "-" : "";
  return sign + whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
}

function withDigits(value, digits) {
  const text = grouped(value, digits);
  if (!text.includes(".") || Math.abs(Number(text.replaceAll(",", "")) - value) > 1e-9 * Math.abs(value)) return text;
  return text.replace(/0+$/, "").replace(/\.$/, "");
}

function number(value, digits = 3) {
  if (value === 0) return "0";
  const decimals = digits - 1 - Number(value.toExponential(digits - 1).split("e")[1]);
  if (decimals < 0) {
    const step = 10 ** -decimals;
    return grouped(Math.floor(value / step + 0.5) * step, 0);
  }
  const most = Math.max(3, digits);
  if (value > 0 && value < 0.5 * 10 ** -most) return `under ${(10 ** -most).toFixed(most)}`;
  return withDigits(value, Math.min(decimals, most));
}

function percent(ratio, digits = 3) {
  const share = ratio * 100;
  const rest = Math.min(share, 100 - share);
  if (rest <= 0) return `${grouped(share, 0)}${NBSP}%`;
  if (rest < 1e-6) return share > 50 ? `over 99.999999${NBSP}%` : `under 0.000001${NBSP}%`;
  const extra = digits - 3;
  return `${withDigits(share, Math.min(7, Math.max(1, 1 - Math.floor(Math.log10(rest))) + extra))}${NBSP}%`;
}

function bytes(value, digits = 3) {
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  let rest = value;
  while (Math.abs(rest) >= 999.5 && unit < units.length - 1) {
    rest /= 1000;
    unit += 1;
  }
  if (unit === 0) return value > 0 && value < 0.5 ? `under 1${NBSP}B` : `${Math.floor(value + 0.5)}${NBSP}B`;
  return `${number(value / 1000 ** unit, digits)}${NBSP}${units[unit]}`;
}

function milliseconds(value, digits = 3) {
  return value >= 999.5 ? seconds(value / 1000, digits) : `${number(value, digits)}${NBSP}ms`;
}

function seconds(value, digits = 3) {
  return `${number(value, digits)}${NBSP}s`;
}

const formats = {
  ms: milliseconds,
  s: seconds,
  percent,
  bytes,
  count: (value, digits = 3) => (Number.isInteger(value) ? grouped(value, 0) : number(value, digits)),
  number,
};

// Return the numbers of one axis with enough digits to differ.
function apart(values, format) {
  for (let digits = 3; digits < 8; digits += 1) {
    const texts = values.map((value) => format(value, digits));
    if (new Set(texts).size === values.length) return texts;
  }
  return values.map((value) => format(value));
}

// Scales: a function from values to pixels, with its ticks.

function linearScale(low, high, from, to, wanted) {
  if (high <= low) high = low + (low === 0 ? 1 : Math.abs(low) * 0.1);
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((size) => size >= raw * 0.999);
  const ticks = [];
  for (let index = Math.ceil(low / step - 1e-9); index * step <= high + step * 1e-9; index += 1) {
    ticks.push(Number((index * step).toPrecision(12)));
  }
  const scale = (value) => from + ((value - low) / (high - low)) * (to - from);
  scale.ticks = ticks;
  scale.invert = (pixel) => low + ((pixel - from) / (to - from)) * (high - low);
  return scale;
}

function logScale(low, high, from, to, wanted) {
  if (high <= low) high = low * 10;
  const [first, last] = [Math.log10(low), Math.log10(high)];
  const factors = (last - first) * 3 > wanted * 1.6 ? [1] : [1, 2, 5];
  let ticks = [];
  for (let power = Math.floor(first); power <= Math.ceil(last); power += 1) {
    for (const factor of factors) ticks.push(Number((factor * 10 ** power).toPrecision(6)));
  }
  ticks = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  const every = Math.ceil(ticks.length / (wanted * 1.6));
  const scale = (value) => from + ((Math.log10(Math.max(value, low)) - first) / (last - first)) * (to - from);
  scale.ticks = ticks.filter((_, index) => index % every === 0);
  scale.invert = (pixel) => 10 ** (first + ((pixel - from) / (to - from)) * (last - first));
  return scale;
}

// The tooltip has a title and lines of text. With `steer`, mouse and arrow keys move the tooltip among `count` marks.

function tip(box) {
  return html(box, "div", { class: "tip", role: "status", hidden: "" });
}

function showTip(element, box, x, title, lines) {
  element.replaceChildren();
  html(element, "strong", {}, title);
  for (const line of lines) {
    const row = html(element, "div");
    if (line.run !== undefined) key(row, line.run);
    html(row, "span", {}, line.name);
    html(row, "span", { class: "amount" }, line.amount);
  }
  element.hidden = false;
  const room = box.clientWidth;
  const width = element.offsetWidth;
  element.style.left = `${Math.max(0, x + width + 24 > room ? x - width - 14 : x + 14)}px`;
  element.style.top = "8px";
}

function steer(surface, count, show, hide, fromPointer) {
  let at = -1;
  const go = (index) => {
    at = Math.max(0, Math.min(count - 1, index));
    show(at);
  };
  surface.setAttribute("tabindex", "0");
  surface.addEventListener("keydown", (event) => {
    const jump = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (jump) go(at < 0 ? 0 : at + jump);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(count - 1);
    else if (event.key === "Escape") hide();
    else return;
    event.preventDefault();
  });
  surface.addEventListener("pointermove", (event) => {
    const index = fromPointer(event);
    if (index < 0) hide();
    else go(index);
  });
  surface.addEventListener("pointerleave", hide);
  surface.addEventListener("blur", hide);
}

function pointerX(surface, event) {
  const bounds = surface.getBoundingClientRect();
  return ((event.clientX - bounds.left) / bounds.width) * surface.viewBox.baseVal.width;
}
