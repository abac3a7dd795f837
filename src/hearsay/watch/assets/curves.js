// Small curves and bars on canvases, with a horizontal and a vertical axis. `x` and `y` are the texts at the two ends of
// each axis.

const dark = matchMedia("(prefers-color-scheme: dark)");
const shown = new WeakMap(); // the last drawn content, by canvas

// Return whether the content differs from the last drawn one.
function isNew(canvas, ...what) {
  const wanted = JSON.stringify([canvas.clientWidth, canvas.clientHeight, window.devicePixelRatio, dark.matches, ...what]);
  if (shown.get(canvas) === wanted) return false;
  shown.set(canvas, wanted);
  return true;
}

function pen(canvas) {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const [width, height] = [Math.round(canvas.clientWidth * scale), Math.round(canvas.clientHeight * scale)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const found = canvas.getContext("2d");
  found.clearRect(0, 0, width, height);
  const style = getComputedStyle(document.documentElement);
  const known = {};
  const colour = (name) => (known[name] ??= style.getPropertyValue(`--${name}`).trim());
  found.font = `${11 * scale}px system-ui, sans-serif`;
  return { found, width, height, scale, colour };
}

// Draw the axes, and return their positions. The texts of the y axis are next to the curves, never over them.
function drawAxes(at, x, y) {
  const { found, width, height, scale, colour } = at;
  const [foot, top] = [height - 15 * scale, 6 * scale];
  const left = Math.max(...y.map((text) => found.measureText(text).width)) + 6 * scale;
  found.strokeStyle = colour("line");
  found.lineWidth = scale;
  found.beginPath();
  found.moveTo(left, top);
  found.lineTo(left, foot);
  for (const line of [top, foot]) {
    found.moveTo(left, line);
    found.lineTo(width, line);
  }
  found.stroke();
  found.fillStyle = colour("faint");
  found.textAlign = "right";
  found.textBaseline = "middle";
  y.forEach((text, end) => found.fillText(text, left - 4 * scale, end ? top : foot));
  found.textBaseline = "bottom";
  found.fillText(x[1], width, height);
  found.textAlign = "left";
  found.fillText(x[0], left, height);
  return { foot, top, left, across: width - left };
}

// Draw `series`, which are pairs of a colour and points; x and y of a point are from 0 to 1.
export function curves(canvas, series, x, y) {
  if (!isNew(canvas, series, x, y)) return;
  const at = pen(canvas);
  const { foot, top, left, across } = drawAxes(at, x, y);
  for (const [name, points] of series) {
    at.found.strokeStyle = at.colour(name);
    at.found.lineWidth = 1.8 * at.scale;
    at.found.beginPath();
    points.forEach(([right, up], place) => at.found[place ? "lineTo" : "moveTo"](left + right * across, foot - up * (foot - top)));
    at.found.stroke();
  }
}

// Draw shares from 0 to 1 as squares, row by row; a share that is null has no square.
export function squares(canvas, shares) {
  if (!isNew(canvas, shares)) return;
  const side = Math.ceil(Math.sqrt(shares.length));
  const at = pen(canvas);
  const step = at.width / side;
  shares.forEach((share, place) => {
    if (share === null) return;
    at.found.fillStyle = `color-mix(in oklab, ${at.colour("last")} ${(100 * share).toFixed(1)}%, ${at.colour("none")})`;
    const [x, y] = [Math.round((place % side) * step), Math.round(Math.floor(place / side) * step)];
    at.found.fillRect(x, y, Math.round(((place % side) + 1) * step) - x - 1, Math.round((Math.floor(place / side) + 1) * step) - y - 1);
  });
}

export function bars(canvas, values, x, y) {
  if (!isNew(canvas, values, x, y)) return;
  const at = pen(canvas);
  const { foot, top, left, across } = drawAxes(at, x, y);
  const most = Math.max(...values, 1);
  const step = across / Math.max(values.length, 1);
  at.found.fillStyle = at.colour("first");
  values.forEach((value, place) => {
    const tall = (value / most) * (foot - top);
    if (value) at.found.fillRect(left + place * step + 0.5, foot - Math.max(tall, at.scale), Math.max(step - 1, 1), Math.max(tall, at.scale));
  });
}
