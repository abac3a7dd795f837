// Small curves and bars on canvases, without axes of their own: the words beside them have the figures.

const dark = matchMedia("(prefers-color-scheme: dark)");
const shown = new WeakMap(); // by canvas: what was drawn there last

// Whether something else is to be drawn than what is there.
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

function ground(at, low, high) {
  const { found, width, height, scale, colour } = at;
  const foot = height - 15 * scale;
  found.strokeStyle = colour("line");
  found.lineWidth = scale;
  found.beginPath();
  found.moveTo(0, foot);
  found.lineTo(width, foot);
  found.stroke();
  found.fillStyle = colour("faint");
  found.textBaseline = "bottom";
  found.textAlign = "left";
  found.fillText(low, 0, height);
  found.textAlign = "right";
  found.fillText(high, width, height);
  return foot;
}

// `series` are [colour, points of x and y from 0 to 1].
export function curves(canvas, series, low, high) {
  if (!isNew(canvas, series, low, high)) return;
  const at = pen(canvas);
  const foot = ground(at, low, high);
  const top = 4 * at.scale;
  for (const [name, points] of series) {
    at.found.strokeStyle = at.colour(name);
    at.found.lineWidth = 1.8 * at.scale;
    at.found.beginPath();
    points.forEach(([x, y], place) => at.found[place ? "lineTo" : "moveTo"](x * at.width, foot - y * (foot - top)));
    at.found.stroke();
  }
}

// Shares from 0 to 1 as squares, row by row; nothing where there is none.
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

export function bars(canvas, values, low, high, name = "first") {
  if (!isNew(canvas, values, low, high, name)) return;
  const at = pen(canvas);
  const foot = ground(at, low, high);
  const most = Math.max(...values, 1);
  const step = at.width / Math.max(values.length, 1);
  at.found.fillStyle = at.colour(name);
  values.forEach((value, place) => {
    const tall = (value / most) * (foot - 4 * at.scale);
    if (value) at.found.fillRect(place * step + 0.5, foot - Math.max(tall, at.scale), Math.max(step - 1, 1), Math.max(tall, at.scale));
  });
}
