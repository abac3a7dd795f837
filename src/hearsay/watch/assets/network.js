// The network on two canvases: the lower one shows links, and is drawn when links change; the upper one shows nodes and
// travelling messages. So a frame of a thousand nodes takes a millisecond, without a library and without WebGL.

const SUNFLOWER = Math.PI * (3 - Math.sqrt(5));
const SIDE = 10000;
const TRAVEL_US = 400000;
const SHADES = 8;

export class Network {
  constructor(canvas, below, chosen) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.below = below;
    this.nodes = document.createElement("canvas");
    this.nodesFor = "";
    this.fills = [];
    this.linksFor = "";
    this.drawnFor = "";
    this.placed = 0;
    this.x = new Float64Array(0);
    this.y = new Float64Array(0);
    this.zoom = 1;
    this.middle = [0.5, 0.5];
    this.reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.readColours());
    this.readColours();
    this.listen(chosen);
    this.size = [0, 0];
    new ResizeObserver(([{ contentRect }]) => {
      this.size = [contentRect.width, contentRect.height];
      chosen(undefined);
    }).observe(canvas);
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries(["link", "node", "down", "first", "last", "good", "bad", "ink", "accent", "card"].map((name) => [name, get(name)]));
    this.shades = Array.from({ length: SHADES }, (_, at) => `color-mix(in oklab, ${this.colours.last} ${(100 * at) / (SHADES - 1)}%, ${this.colours.first})`);
    this.greens = Array.from({ length: SHADES }, (_, at) => `color-mix(in oklab, ${this.colours.good} ${(100 * at) / (SHADES - 1)}%, ${this.colours.node})`);
    this.placed += 1;
  }

  // Place the nodes on a disc, or at the positions that the source computed.
  place(count, places) {
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    for (let at = 0; at < count; at += 1) {
      const laid = places && 2 * at + 1 < places.length;
      const [angle, radius] = [at * SUNFLOWER, 0.47 * Math.sqrt((at + 0.5) / count)];
      this.x[at] = laid ? places[2 * at] / SIDE : 0.5 + radius * Math.cos(angle);
      this.y[at] = laid ? places[2 * at + 1] / SIDE : 0.5 + radius * Math.sin(angle);
    }
    this.placed += 1;
  }

  // Place the nodes around the publisher: the later a node got the message, the farther out, and near its sender. Nodes
  // without the message are at the rim.
  placeByArrival(count, message) {
    const { steps } = message;
    const [angle, when] = [new Float64Array(count).fill(-1), new Float64Array(count).fill(-1)];
    const children = new Map();
    let longest = 1;
    for (let at = 0; at < steps.length; at += 4) {
      const [place, from, late] = steps.slice(at, at + 3);
      if (when[place] >= 0) continue;
      when[place] = late;
      longest = Math.max(longest, late);
      const parent = from >= 0 && (when[from] >= 0 || from === message.publisher) ? from : -1;
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(place);
    }
    const order = [];
    const open = [...(children.get(-1) ?? []), message.publisher].reverse();
    while (open.length) {
      const place = open.pop();
      order.push(place);
      for (const child of children.get(place) ?? []) if (child !== message.publisher) open.push(child);
    }
    order.forEach((place, at) => place >= 0 && (angle[place] = (2 * Math.PI * at) / order.length));
    for (let place = 0; place < count; place += 1) {
      const radius = when[place] >= 0 ? 0.05 + (0.38 * when[place]) / longest : place === message.publisher ? 0 : 0.47;
      const turn = angle[place] >= 0 ? angle[place] : place * SUNFLOWER;
      this.x[place] = 0.5 + radius * Math.cos(turn);
      this.y[place] = 0.5 + radius * Math.sin(turn);
    }
    this.placed += 1;
  }

  // Draw a view (moment, layer, version, message, now, colour, node). Return whether it differed from the last one.
  draw(view) {
    if (!this.isNew(view)) return false;
    this.drawnFor = this.drawingKey(view);
    this.fit();
    this.drawLinks(view);
    this.pen.clearRect(0, 0, this.width, this.height);
    if (this.travels(view)) this.drawTravel(view);
    this.drawNodes(view);
    return true;
  }

  isNew(view) {
    return this.drawnFor !== this.drawingKey(view);
  }

  // Return a text of all that a drawing depends on: equal texts mean equal drawings.
  drawingKey(view) {
    const { message, now } = view;
    const spread = view.colour === "message" && message ? `${message.serial} ${message.steps.length}` : "";
    return `${this.positionKey()} ${view.version} ${view.layer} ${view.colour} ${view.node} ${spread} ${this.travels(view) ? now : ""}`;
  }

  // Return a text of all that positions on the canvas depend on.
  positionKey() {
    return `${this.size} ${window.devicePixelRatio} ${this.placed} ${this.zoom} ${this.middle}`;
  }

  travels({ colour, message, now }) {
    return colour === "message" && message !== null && !this.reducedMotion.matches && now - message.published < message.last + TRAVEL_US;
  }

  fit() {
    const wanted = this.positionKey();
    if (this.fitFor === wanted) return;
    this.fitFor = wanted;
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const [width, height] = this.size.map((length) => Math.max(1, Math.round(length * scale)));
    if (this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      Object.assign(this.below, { width, height });
    }
    Object.assign(this, { width, height, scale });
    const side = Math.min(width, height) * this.zoom;
    this.across = Float64Array.from(this.x, (value) => width / 2 + (value - this.middle[0]) * side);
    this.down = Float64Array.from(this.y, (value) => height / 2 + (value - this.middle[1]) * side);
    this.radius = Math.max(1.6, Math.min(9, (0.28 * side) / Math.sqrt(Math.max(this.x.length, 1)) / 2));
  }

  drawLinks({ moment, layer, version, node }) {
    const wanted = `${this.fitFor} ${version} ${layer} ${node}`;
    if (this.linksFor === wanted) return;
    this.linksFor = wanted;
    const pen = this.below.getContext("2d");
    pen.clearRect(0, 0, this.width, this.height);
    const ends = moment.pairs(layer);
    const { across, down } = this;
    pen.lineWidth = this.scale;
    pen.strokeStyle = this.colours.link;
    pen.beginPath();
    for (let at = 0; at < ends.length; at += 2) {
      pen.moveTo(across[ends[at]], down[ends[at]]);
      pen.lineTo(across[ends[at + 1]], down[ends[at + 1]]);
    }
    pen.stroke();
    if (node === null) return;
    pen.strokeStyle = this.colours.accent;
    pen.lineWidth = 1.5 * this.scale;
    pen.beginPath();
    for (let at = 0; at < ends.length; at += 2) {
      if (ends[at] !== node && ends[at + 1] !== node) continue;
      pen.moveTo(across[ends[at]], down[ends[at]]);
      pen.lineTo(across[ends[at + 1]], down[ends[at + 1]]);
    }
    pen.stroke();
  }

  // Draw recent deliveries as lines from their senders, which fade.
  drawTravel({ message, now }) {
    const { pen, across, down } = this;
    const late = now - message.published;
    const { steps } = message;
    pen.strokeStyle = this.colours.last;
    pen.lineWidth = this.scale;
    for (const [from, to, alpha] of [[0, 0.25, 0.6], [0.25, 0.6, 0.25], [0.6, 1, 0.1]]) {
      pen.globalAlpha = alpha;
      pen.beginPath();
      for (let at = 0; at < steps.length; at += 4) {
        const age = (late - steps[at + 2]) / TRAVEL_US;
        if (steps[at + 1] < 0 || age < from || age >= to) continue;
        pen.moveTo(across[steps[at + 1]], down[steps[at + 1]]);
        pen.lineTo(across[steps[at]], down[steps[at]]);
      }
      pen.stroke();
    }
    pen.globalAlpha = 1;
  }

  drawNodes(view) {
    this.paintNodes(view);
    this.pen.drawImage(this.nodes, 0, 0);
    if (view.colour === "message" && view.message) this.markOrigin(view.message, view.now);
    if (view.node !== null) this.ring(view.node, this.colours.accent);
  }

  // Keep the nodes as an image, and repaint only those whose colour has changed, since drawing curves is expensive.
  paintNodes(view) {
    const colour = this.colouring(view);
    const fills = Array.from(this.x, (_, place) => (view.moment.up[place] ? colour(place) : ""));
    const before = this.nodesFor === this.fitFor && fills.every((fill, place) => (fill === "") === (this.fills[place] === "")) ? this.fills : null;
    const pen = this.nodes.getContext("2d");
    if (!before) {
      if (this.nodes.width !== this.width || this.nodes.height !== this.height) Object.assign(this.nodes, { width: this.width, height: this.height });
      pen.clearRect(0, 0, this.width, this.height);
    }
    const classes = new Map();
    fills.forEach((fill, place) => {
      if (before?.[place] === fill) return;
      if (!classes.has(fill)) classes.set(fill, []);
      classes.get(fill).push(place);
    });
    for (const [fill, places] of classes) {
      pen.beginPath();
      for (const place of places) this.outline(pen, place, fill === "");
      pen.lineWidth = this.scale;
      if (fill === "") pen.strokeStyle = this.colours.down;
      else pen.fillStyle = fill;
      if (fill === "") pen.stroke();
      else pen.fill();
    }
    Object.assign(this, { fills, nodesFor: this.fitFor });
  }

  // Draw a disc, or a cross for a node that is down.
  outline(pen, place, isDown) {
    const { radius } = this;
    const [x, y] = [this.across[place], this.down[place]];
    if (isDown) {
      pen.moveTo(x - radius, y - radius);
      pen.lineTo(x + radius, y + radius);
      pen.moveTo(x + radius, y - radius);
      pen.lineTo(x - radius, y + radius);
    } else {
      pen.moveTo(x + radius, y);
      pen.arc(x, y, radius, 0, 2 * Math.PI);
    }
  }

  // Mark the publisher or, if it is not drawn, the nodes that got the message from it.
  markOrigin({ publisher, published, steps }, now) {
    const { colours, scale } = this;
    if (publisher >= 0) {
      const radius = Math.max(1.4 * this.radius, 6 * scale);
      this.disc(publisher, radius + 2.5 * scale, colours.card);
      this.disc(publisher, radius, colours.ink);
      this.name(publisher, "publisher");
      return;
    }
    let isNamed = false;
    for (let at = 0; at < steps.length; at += 4) {
      if (steps[at + 1] >= 0 || steps[at + 3] !== 1 || steps[at + 2] > now - published) continue;
      this.ring(steps[at], colours.ink);
      if (!isNamed) this.name(steps[at], "from the publisher");
      isNamed = true;
    }
  }

  disc(place, radius, colour) {
    this.pen.fillStyle = colour;
    this.pen.beginPath();
    this.pen.arc(this.across[place], this.down[place], radius, 0, 2 * Math.PI);
    this.pen.fill();
  }

  // Write a text next to a node, on the side of the middle.
  name(place, text) {
    const { pen, scale } = this;
    const [x, y] = [this.across[place], this.down[place]];
    const isLeft = x < this.width / 2;
    pen.font = `600 ${12 * scale}px system-ui, sans-serif`;
    pen.textBaseline = "middle";
    pen.textAlign = isLeft ? "left" : "right";
    pen.lineWidth = 3 * scale;
    pen.strokeStyle = this.colours.card;
    pen.fillStyle = this.colours.ink;
    const from = x + (isLeft ? 1 : -1) * (1.4 * this.radius + 8 * scale);
    pen.strokeText(text, from, y);
    pen.fillText(text, from, y);
  }

  ring(place, colour) {
    const { pen } = this;
    pen.strokeStyle = colour;
    pen.lineWidth = 2 * this.scale;
    pen.beginPath();
    pen.arc(this.across[place], this.down[place], this.radius + 3 * this.scale, 0, 2 * Math.PI);
    pen.stroke();
  }

  colouring({ colour, message, now, moment, layer }) {
    if (colour === "message" && message) {
      const when = new Float64Array(this.x.length).fill(-1);
      const { steps } = message;
      const late = now - message.published;
      let longest = 1;
      for (let at = 0; at < steps.length; at += 4) {
        longest = Math.max(longest, steps[at + 2]);
        if (steps[at + 2] <= late) when[steps[at]] = steps[at + 2];
      }
      if (message.publisher >= 0 && late >= 0) when[message.publisher] = 0;
      return (place) => (when[place] < 0 ? this.colours.node : this.shades[Math.min(SHADES - 1, Math.floor((SHADES * when[place]) / longest))]);
    }
    if (colour === "score" && moment.scores.size) {
      const most = Math.max(...moment.scores.values(), 1e-9);
      return (place) => {
        const score = moment.scores.get(place);
        if (score === undefined) return this.colours.node;
        return score < 0 ? this.colours.bad : this.greens[Math.min(SHADES - 1, Math.floor((SHADES * score) / most))];
      };
    }
    if (colour === "links") {
      const links = moment.links(layer);
      const most = Math.max(...links, 1);
      return (place) => this.greens[Math.min(SHADES - 1, Math.floor((SHADES * links[place]) / (most + 1)))];
    }
    if (colour === "topic") {
      const links = moment.links(layer);
      return (place) => (links[place] ? this.colours.first : this.colours.node);
    }
    return () => this.colours.node;
  }

  nearest(x, y) {
    let [found, least] = [null, (this.radius + 8 * this.scale) ** 2];
    for (let place = 0; place < this.x.length; place += 1) {
      const away = (this.across[place] - x) ** 2 + (this.down[place] - y) ** 2;
      if (away < least) [found, least] = [place, away];
    }
    return found;
  }

  magnify(factor) {
    this.zoom = Math.max(1, Math.min(20, this.zoom * factor));
    if (this.zoom === 1) this.middle = [0.5, 0.5];
  }

  listen(chosen) {
    let from = null;
    let moved = false;
    const at = (event) => [event.offsetX * this.scale, event.offsetY * this.scale];
    this.canvas.addEventListener("pointerdown", (event) => {
      from = at(event);
      moved = false;
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const to = at(event);
      if (!moved && Math.hypot(to[0] - from[0], to[1] - from[1]) < 4 * this.scale) return;
      moved = true;
      const side = Math.min(this.width, this.height) * this.zoom;
      this.middle = [this.middle[0] - (to[0] - from[0]) / side, this.middle[1] - (to[1] - from[1]) / side];
      from = to;
      chosen(undefined);
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (from && !moved) chosen(this.nearest(...at(event)));
      from = null;
    });
    this.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.magnify(event.deltaY < 0 ? 1.15 : 1 / 1.15);
      chosen(undefined);
    }, { passive: false });
  }
}
