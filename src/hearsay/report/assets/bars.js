// Charts of bars: grouped by category (bars), stacked by run (stacks), upright by number (histogram).
function drawBars(box, figure, series) {
  const categories = series[0].categories;
  const all = categories.map((category, place) => ({
    label: category,
    bars: series
      .filter((each) => each.values[place] !== null)
      .map((each) => ({ run: each.run, parts: [{ value: each.values[place], name: data.runs[each.run], shade: 0 }] })),
  }));
  drawAcross(box, figure, all.filter((row) => row.bars.length), formats[figure.x.format]);
}

function drawStacks(box, figure, series) {
  legend(html(box, "div", { class: "tools" }), figure.measures, "shade");
  const rows = series.map((each) => ({
    label: data.runs[each.run],
    bars: [{ run: each.run, parts: each.values.map((value, index) => ({ value, name: figure.measures[index], shade: index })) }],
  }));
  drawAcross(box, figure, rows, formats[figure.x.format]);
}

function drawAcross(box, figure, rows, format) {
  const width = Math.max(300, box.clientWidth);
  const longest = Math.max(...rows.map((row) => row.label.length));
  const left = Math.min(width * 0.4, longest * 7 + 14);
  const right = 78;
  const bars = rows.reduce((sum, row) => sum + row.bars.length, 0);
  const thick = bars > rows.length ? 13 : 20;
  const gap = 12;
  const height = rows.reduce((sum, row) => sum + row.bars.length * (thick + 2) + gap, 8) + 36;
  const totals = rows.flatMap((row) => row.bars.map((bar) => bar.parts.reduce((sum, part) => sum + (part.value ?? 0), 0)));
  const scale = linearScale(0, Math.max(...totals), left, width - right, Math.max(2, (width - left - right) / 90));
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
      let sum = 0;
      for (const part of bar.parts) {
        const value = part.value ?? 0;
        const x = scale(sum);
        const shape = svg(group, "rect", { x, y, height: thick, width: Math.max(0, scale(sum + value) - x), class: `bar shade-${part.shade}` });
        sum += value;
        if (value > 0) spots.push({ shape, x: scale(sum), title: row.label, run: bar.run, name: part.name, amount: format(value) });
      }
      svg(surface, "text", { x: scale(sum) + 6, y: y + thick / 2 + 4, class: "value" }, format(sum));
      y += thick + 2;
    }
    y += gap;
  }
  steerSpots(box, surface, spots);
}

function drawHistogram(box, figure, series) {
  const width = Math.max(300, box.clientWidth);
  const [left, right, top, bottom, height] = [62, 8, 22, 232, 274];
  const format = formats[figure.panels[0].y.format];
  const categories = series[0].categories;
  const surface = drawing(box, figure, `0 0 ${width} ${height}`, "histogram", "Arrow keys move along the bars.");
  const scale = linearScale(0, Math.max(...series.flatMap((each) => each.values)) * 1.05, bottom, top, 4.5);
  svg(surface, "text", { x: 0, y: top - 9 }, figure.panels[0].y.label);
  const words = apart(scale.ticks, format);
  for (const [place, tick] of scale.ticks.entries()) {
    svg(surface, "path", { d: `M${left} ${scale(tick)}H${width - right}`, class: tick === 0 ? "axis" : "grid" });
    svg(surface, "text", { x: left - 8, y: scale(tick) + 4, "text-anchor": "end" }, words[place]);
  }
  const slot = (width - left - right) / categories.length;
  const thick = Math.min(36, (slot * 0.84) / series.length);
  const widest = Math.max(...categories.map((text) => text.length)) * 7 + 10;
  const every = Math.ceil(widest / slot);
  const spots = [];
  categories.forEach((category, place) => {
    const middle = left + slot * (place + 0.5);
    if (place % every === 0) svg(surface, "text", { x: middle, y: bottom + 17, "text-anchor": "middle" }, category);
    series.forEach((each, index) => {
      const value = each.values[place];
      if (!value) return;
      const x = middle + (index - series.length / 2) * thick;
      const group = svg(surface, "g", { class: colourOf(each.run), "data-run": each.run });
      const shape = svg(group, "rect", { x, y: scale(value), width: Math.max(1, thick - 1), height: bottom - scale(value), class: "bar" });
      spots.push({ shape, x: x + thick, title: category, run: each.run, name: data.runs[each.run], amount: format(value) });
    });
  });
  svg(surface, "text", { x: width - right, y: height - 4, "text-anchor": "end" }, figure.x.label);
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
