// Charts of lines: one or more panels over one x axis, bands, dashes for measures, marks for runs, or marks alone.
function drawLines(box, figure, series) {
  const width = Math.max(300, box.clientWidth);
  const formatX = formats[figure.x.format];
  const left = 62;
  const right = 14;
  const chosen = box.scaleChoice ?? {};
  const logX = chosen.x ?? figure.x.scale === "log";
  const logY = chosen.y ?? figure.panels[0].y.scale === "log";

  const tools = html(box, "div", { class: "tools" });
  if (figure.measures.length > 1) legend(tools, figure.measures);
  const toggle = (axis, on, text) => {
    const button = html(tools, "button", { type: "button", "aria-pressed": on, class: axis === "x" ? "push" : "" }, text);
    button.classList.toggle("push", !tools.querySelector("button.push") || axis === "x");
    button.addEventListener("click", () => {
      box.scaleChoice = { ...chosen, [axis]: !on };
      redraw(box, figure);
    });
  };
  if (figure.x.can_be_log) toggle("x", logX, `log ${figure.x.label}`);
  if (figure.panels[0].y.can_be_log) toggle("y", logY, "log scale");
  if (!tools.childElementCount) tools.remove();

  const gap = 34;
  // Leave out panels without series.
  const panels = [...figure.panels.entries()].filter(([index]) => series.some((each) => (each.panel ?? 0) === index));
  const heights = panels.map(([, panel]) => panel.height);
  const height = heights.reduce((sum, each) => sum + each + gap, 0) + 24;
  const about = `${series.length} curves. Arrow keys move along the x axis.`;
  const surface = drawing(box, figure, `0 0 ${width} ${height}`, "lines", about);

  const allX = series.flatMap((each) => each.x);
  const [lowX, highX] = domain(allX, figure.x, logX, figure.x.format === "s");
  const inset = series.some((each) => each.dots) ? 14 : 0;
  const scaleX = (logX ? logScale : linearScale)(lowX, highX, left + inset, width - right - inset, Math.max(3, width / 95));
  const wordsX = apart(scaleX.ticks, formatX);
  let top = 22;
  const scalesY = panels.map(([index, panel], at) => {
    const mine = series.filter((each) => (each.panel ?? 0) === index);
    const values = mine.flatMap((each) => each.y.concat(each.low ?? [], each.high ?? []));
    const [low, high] = domain(values, panel.y, logY, false);
    const bottom = top + panel.height;
    const scale = (logY ? logScale : linearScale)(low, high, bottom, top, panel.height / 46);
    const format = formats[panel.y.format];
    const words = apart(scale.ticks, format);
    const cut = panel.y.zoom && low > 0;
    svg(surface, "text", { x: 0, y: top - 9 }, cut ? `${panel.y.label}, axis from ${format(low)}` : panel.y.label);
    if (cut) svg(surface, "path", { d: `M${left - 3} ${bottom - 8}l12 -6m0 6l-12 6`, class: "cut" });
    for (const [place, tick] of scale.ticks.entries()) {
      const y = scale(tick);
      svg(surface, "path", { d: `M${left} ${y}H${width - right}`, class: tick === 0 ? "axis" : "grid" });
      svg(surface, "text", { x: left - 8, y: y + 4, "text-anchor": "end" }, words[place]);
    }
    for (const [place, tick] of scaleX.ticks.entries()) {
      svg(surface, "path", { d: `M${scaleX(tick)} ${top}V${bottom}`, class: "grid" });
      if (at === panels.length - 1) {
        svg(surface, "text", { x: scaleX(tick), y: bottom + 17, "text-anchor": "middle" }, wordsX[place]);
      }
    }
    // Marks without a line are side by side, and small if there are many, so that runs with the same value are visible.
    const room = (scaleX(highX) - scaleX(lowX)) / Math.max(...mine.map((each) => each.x.length));
    const apartX = Math.min(6, (2 * inset) / mine.length, room / mine.length);
    const size = Math.max(0.4, Math.min(1, room / 12));
    for (const [rank, each] of mine.entries()) {
      drawSeries(surface, each, scaleX, scale, logY ? low : -Infinity, (rank - (mine.length - 1) / 2) * apartX, size);
    }
    top = bottom + gap;
    return scale;
  });
  svg(surface, "text", { x: width - right, y: height - 4, "text-anchor": "end" }, figure.x.label);
  addCursor(box, surface, figure, series, scaleX, formatX, [22, top - gap]);
  return scalesY;
}

function domain(values, axis, log, tight) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value === null || (log && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low === Infinity) return log ? [1, 10] : [0, 1];
  if (log) return [low, high];
  if (axis.top !== null) high = axis.top;
  if (axis.zoom && low > 0.5) return [1 - niceAbove((1 - low) * 1.15), 1];
  if (tight && low > 0 && low > (high - low) * 0.25) return [low, high];
  return [Math.min(0, low), high];
}

function niceAbove(value) {
  if (value <= 0) return 0.05;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= value);
}

function drawSeries(surface, each, scaleX, scaleY, least, shift, size) {
  const group = svg(surface, "g", { class: colourOf(each.run), "data-run": each.run });
  const inside = (value) => value !== null && value !== undefined && value > least;
  const path = (values) => {
    let text = "";
    let before = null;
    values.forEach((value, index) => {
      if (!inside(value)) {
        before = null;
        return;
      }
      const [x, y] = [scaleX(each.x[index]).toFixed(1), scaleY(value).toFixed(1)];
      text += before === null ? `M${x} ${y}` : each.step ? `H${x}V${y}` : `L${x} ${y}`;
      before = value;
    });
    return text;
  };
  if (each.low) {
    const back = each.x.map((x, index) => [x, each.low[index]]).reverse();
    const area = path(each.high) + back.filter(([, y]) => inside(y)).map(([x, y]) => `L${scaleX(x).toFixed(1)} ${scaleY(y).toFixed(1)}`).join("");
    svg(group, "path", { d: `${area}Z`, class: "band" });
  }
  if (!each.dots) svg(group, "path", { d: path(each.y), class: `series dash-${each.measure ?? 0}` });
  const every = each.dots ? 1 : each.y.length / (each.y.length < 3 ? 1 : 6);
  for (let at = each.dots ? 0 : (0.35 + (each.run % COLOURS) * 0.09) * every; at < each.y.length; at += every) {
    const index = Math.min(each.y.length - 1, Math.floor(at));
    if (!inside(each.y[index])) continue;
    const [x, y] = [scaleX(each.x[index]), scaleY(each.y[index])];
    const place = each.dots ? `translate(${x + shift} ${y}) scale(${size})` : `translate(${x} ${y})`;
    svg(group, "path", { d: markOf(each.run), class: "mark", transform: place });
  }
}

function addCursor(box, surface, figure, series, scaleX, formatX, [top, bottom]) {
  const grid = [...new Set(series.flatMap((each) => each.x))].sort((a, b) => a - b);
  const cursor = svg(surface, "path", { class: "cursor", visibility: "hidden" });
  const bubble = tip(box);
  const hide = () => {
    bubble.hidden = true;
    cursor.setAttribute("visibility", "hidden");
  };
  const show = (index) => {
    const x = scaleX(grid[index]);
    cursor.setAttribute("d", `M${x} ${top}V${bottom}`);
    cursor.setAttribute("visibility", "visible");
    const lines = series.map((each) => {
      const at = nearest(each.x, grid[index]);
      const format = formats[figure.panels[each.panel ?? 0].y.format];
      const shown = (value) => (value === null || value === undefined ? "none" : format(value));
      let amount = shown(each.y[at]);
      if (each.low) amount += ` (${shown(each.low[at])} to ${shown(each.high[at])})`;
      const measure = figure.measures[each.measure] ?? (figure.panels.length > 1 ? figure.panels[each.panel ?? 0].y.label : "");
      return { run: each.run, name: [data.runs[each.run], measure].filter(Boolean).join(", "), amount };
    });
    const scaled = (x / surface.viewBox.baseVal.width) * surface.clientWidth;
    showTip(bubble, box, scaled, `${figure.x.label} ${formatX(grid[index])}`, lines);
  };
  steer(surface, grid.length, show, hide, (event) => nearest(grid, scaleX.invert(pointerX(surface, event))));
}

function nearest(sorted, wanted) {
  let low = 0;
  let high = sorted.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low > 0 && wanted - sorted[low - 1] < sorted[low] - wanted ? low - 1 : low;
}
