// The mesh as a picture, and the spread of one message. Places were computed when the page was written.
const SIDE = 1000;

function multiples(box, series, draw) {
  const grid = html(box, "div", { class: "multiples" });
  return series.map((each) => {
    const part = html(grid, "div", { class: colourOf(each.run), "data-run": each.run });
    if (data.runs.length > 1) {
      const title = html(part, "h4");
      key(title, each.run);
      title.append(data.runs[each.run]);
      if (each.caption) html(title, "small", {}, each.caption);
    }
    return draw(part, each);
  });
}

function drawMesh(box, figure, series) {
  const most = Math.max(1, ...series.flatMap((each) => each.degree));
  html(box, "div", { class: "tools" }, `The larger a node, the more links are drawn at it (most: ${most}).`);
  multiples(box, series, (part, each) => {
    const holder = html(part, "div", { class: "chart" });
    const surface = svg(holder, "svg", { viewBox: `-20 -20 ${SIDE + 40} ${SIDE + 40}`, role: "img", class: "picture" });
    surface.setAttribute("aria-label", `${figure.title}: ${each.nodes.length} nodes. Arrow keys move from node to node.`);
    const line = (a, b) => `M${each.x[a]} ${each.y[a]}L${each.x[b]} ${each.y[b]}`;
    const neighbours = each.nodes.map(() => []);
    let all = "";
    for (let place = 0; place < each.links.length; place += 2) {
      const [a, b] = [each.links[place], each.links[place + 1]];
      neighbours[a].push(b);
      neighbours[b].push(a);
      all += line(a, b);
    }
    const opacity = Math.min(0.6, Math.max(0.2, 250 / each.links.length));
    svg(surface, "path", { d: all, class: "link", "stroke-opacity": opacity });
    const strong = svg(surface, "path", { d: "", class: "link strong" });
    const size = each.nodes.length > 200 ? 5 : 8;
    const shapes = each.nodes.map((_, index) =>
      svg(surface, "circle", { cx: each.x[index], cy: each.y[index], r: size * (0.6 + each.degree[index] / most), class: "node" }),
    );
    const order = new Map(shapes.map((shape, index) => [shape, index]));
    const bubble = tip(holder);
    let lit = null;
    const hide = () => {
      bubble.hidden = true;
      strong.setAttribute("d", "");
      if (lit) lit.classList.remove("on");
    };
    const show = (index) => {
      hide();
      lit = shapes[index];
      lit.classList.add("on");
      strong.setAttribute("d", neighbours[index].map((other) => line(index, other)).join(""));
      const names = neighbours[index].map((other) => each.nodes[other]).sort((a, b) => a - b);
      const shown = names.slice(0, 12).join(", ") + (names.length > 12 ? ", …" : "");
      const x = ((each.x[index] + 20) / (SIDE + 40)) * surface.clientWidth;
      showTip(bubble, holder, x, `node ${each.nodes[index]}`, [{ name: `links to ${shown}`, amount: formats.count(names.length) }]);
    };
    steer(surface, shapes.length, show, hide, (event) => order.get(event.target) ?? -1);
  });
}

function drawSpread(box, figure, series) {
  const end = Math.max(...series.map((each) => each.after[each.after.length - 1] ?? 0), 1);
  const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const player = html(box, "div", { class: "player" });
  const button = html(player, "button", { type: "button", class: "play" }, "Play");
  const slider = html(player, "input", { type: "range", min: 0, max: 1000, value: 1000, step: 1, "aria-label": "time after publication" });
  const clock = html(player, "output", { class: "clock" });
  // A long tail would leave most of the spread to the first blink: the middle of the slider is the median delivery.
  const all = series.flatMap((each) => each.after).sort((a, b) => a - b);
  const median = all[all.length >> 1] || end / 2;
  const bend = Math.min(8, Math.max(1, Math.log(median / end) / Math.log(0.5)));
  const kinds = new Set(series.flatMap((each) => each.vias));
  const told = [];
  if (kinds.has("iwant")) told.push("Hollow: the copy was asked for (IWANT).");
  if (bend > 1.5) told.push("Time runs faster towards the end.");
  html(box, "div", { class: "tools" }, ["Middle: the publisher.", ...told].join(" "));
  const shows = multiples(box, series, (part, each) => spreadPicture(part, figure, each));

  const seek = (share) => {
    const now = share === 1 ? end : share ** bend * end;
    slider.value = Math.round(share * 1000);
    clock.textContent = formats.ms(Math.round(now * 10) / 10);
    slider.setAttribute("aria-valuetext", clock.textContent);
    for (const show of shows) show(now);
  };
  let frame = 0;
  const stop = () => {
    cancelAnimationFrame(frame);
    clearTimeout(frame);
    frame = 0;
    button.textContent = "Play";
  };
  // A run through the whole spread takes six seconds; with reduced motion it goes in ten still pictures.
  const play = () => {
    const from = slider.value >= 1000 ? 0 : slider.value / 1000;
    const began = performance.now();
    button.textContent = "Pause";
    const next = () => {
      if (!box.isConnected || !player.isConnected) return;
      let share = Math.min(1, from + (performance.now() - began) / 6000);
      if (calm) share = Math.floor(share * 10) / 10;
      seek(share);
      if (share >= 1) stop();
      else frame = calm ? setTimeout(next, 600) : requestAnimationFrame(next);
    };
    next();
  };
  button.addEventListener("click", () => (frame ? stop() : play()));
  slider.addEventListener("input", () => {
    stop();
    seek(slider.value / 1000);
  });
  seek(1);
}

function spreadPicture(part, figure, each) {
  const surface = svg(part, "svg", { viewBox: `-20 -20 ${SIDE + 40} ${SIDE + 40}`, role: "img", class: "picture spread" });
  surface.setAttribute("aria-label", `${figure.title}: ${each.nodes.length} deliveries in ${each.rings.length - 1} rings.`);
  for (const radius of each.rings.slice(1)) {
    svg(surface, "circle", { cx: SIDE / 2, cy: SIDE / 2, r: radius, class: "ring" });
  }
  const ways = each.nodes.map((_, index) => {
    const parent = each.parents[index];
    if (parent < 0 && each.ring[index] !== 1) return null;
    const [x, y] = parent < 0 ? [SIDE / 2, SIDE / 2] : [each.x[parent], each.y[parent]];
    return svg(surface, "path", { d: `M${x} ${y}L${each.x[index]} ${each.y[index]}`, class: "way" });
  });
  const asked = each.vias.indexOf("iwant");
  const size = Math.min(9, Math.max(4, 100 / Math.sqrt(each.nodes.length)));
  const dots = each.nodes.map((node, index) => {
    const hollow = each.via[index] === asked ? " asked" : "";
    const dot = svg(surface, "circle", { cx: each.x[index], cy: each.y[index], r: size, class: `dot${hollow}` });
    const hops = each.ring[index] === 1 ? "1 hop" : `${each.ring[index]} hops`;
    svg(dot, "title", {}, `node ${node}: after ${formats.ms(each.after[index])}, ${hops}, ${each.vias[each.via[index]]}`);
    return dot;
  });
  svg(surface, "circle", { cx: SIDE / 2, cy: SIDE / 2, r: size * 1.5, class: "root" });
  const readout = html(part, "div", { class: "tools reached" });
  let reached = 0;
  return (now) => {
    const light = (index, on) => {
      dots[index].classList.toggle("on", on);
      ways[index]?.classList.toggle("on", on);
    };
    while (reached < dots.length && each.after[reached] <= now) light(reached++, true);
    while (reached > 0 && each.after[reached - 1] > now) light(--reached, false);
    readout.textContent = `${formats.count(reached)} of ${formats.count(dots.length)} drawn deliveries made (${percent(reached / dots.length)})`;
  };
}
