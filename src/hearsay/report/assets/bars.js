// Draw a chart of bars, grouped by category.
function drawBars(box, figure, series) {
  const format = formats[figure.x.format];
  const rows = series[0].categories
    .map((label, place) => ({
      label,
      bars: series.map((each) => ({ run: each.run, value: each.values[place] })).filter((bar) => bar.value !== null),
    }))
    .filter((row) => row.bars.some((bar) => bar.value > 0));
  const width = Math.max(300, box.clientWidth);
  const longest = Math.max(...rows.map((row) => row.label.length));
  const left = Math.min(width * 0.4, longest * 7 + 14);
  const right = 78;
  const bars = rows.reduce((sum, row) => sum + row.bars.length, 0);
  const thick = bars > rows.length ? 13 : 20;
  const gap = 12;
  const height = rows.reduce((sum, row) => sum + row.bars.length * (thick + 2) + gap, 8) + 36;
  const values = rows.flatMap((row) => row.bars.map((bar) => bar.value));
  const scale = linearScale(0, Math.max(...values), left, width - right, Math.max(2, (width - left - right) / 90));
  const surface = drawing(box, figure, `0 0 ${width} ${height}`, "bars", `${bars} bars. Arrow keys move along them.`);
  const words = apart(scale.ticks, format);
  for (const [place, tick] of scale.ticks.entries()) {
    svg(surface, "path", { d: `M${scale(tick)} 4V${height - 34}`, class: tick === 0 ? "axis" : "grid" });
    svg(surface, "text", { x: scale(tick), y: height - 19, "text-anchor": "middle" }, words[place]);
  }
  svg(surface, "text", { x: width, y: height - 3, "text-anchor": "end" }, figure.x.label);
  const spots = [];
  let y = 8;
  for (const row of rows) {
    const tall = row.bars.length * (thick + 2);
    const room = Math.floor(left / 7) - 1;
    const label = row.label.length > room ? `${row.label.slice(0, room - 1)}…` : row.label;
    svg(surface, "text", { x: left - 8, y: y + tall / 2 + 3, "text-anchor": "end", class: "value" }, label);
    for (const bar of row.bars) {
      const group = svg(surface, "g", { class: colourOf(bar.run), "data-run": bar.run });
      const x = scale(bar.value);
      const shape = svg(group, "rect", { x: left, y, height: thick, width: Math.max(0, x - left), class: "bar" });
      spots.push({ shape, x, title: row.label, run: bar.run, name: data.runs[bar.run], amount: format(bar.value) });
      svg(surface, "text", { x: x + 6, y: y + thick / 2 + 4, class: "value" }, format(bar.value));
      y += thick + 2;
    }
    y += gap;
  }
  steerSpots(box, surface, spots);
}

function steerSpots(box, surface, spots) {
  const bubble = tip(box);
  let lit = null;
  const hide = () => {
    bubble.hidden = true;
    if (lit) lit.classList.remove("on");
  };
  const show = (index) => {
    hide();
    const spot = spots[index];
    if (!spot) return;
    lit = spot.shape;
    lit.classList.add("on");
    const scaled = (spot.x / surface.viewBox.baseVal.width) * surface.clientWidth;
    showTip(bubble, box, scaled, spot.title, [{ run: spot.run, name: spot.name, amount: spot.amount }]);
  };
  steer(surface, spots.length, show, hide, (event) => spots.findIndex((spot) => spot.shape === event.target));
}
