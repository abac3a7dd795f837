// Pictures of runs side by side, and the mesh. The data has the positions of the nodes.
const SIDE = 1000;

function multiples(box, series, draw) {
  const grid = html(box, "div", { class: "multiples" });
  return series.map((each) => {
    const part = html(grid, "div", { class: colourOf(each.run), "data-run": each.run });
    if (data.runs.length > 1) {
      const title = html(part, "h4");
      key(title, each.run);
      title.append(data.runs[each.run]);
    }
    return draw(part, each);
  });
}

function drawMesh(box, figure, series) {
  const most = Math.max(1, ...series.flatMap((each) => each.degree));
  html(box, "div", { class: "tools" }, `Larger nodes have more links (at most ${most}).`);
  multiples(box, series, (part, each) => {
    const holder = html(part, "div", { class: "chart" });
    const about = `${each.nodes.length} nodes. Arrow keys move from node to node.`;
    const surface = drawing(holder, figure, `-20 -20 ${SIDE + 40} ${SIDE + 40}`, "picture", about, data.runs[each.run]);
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
