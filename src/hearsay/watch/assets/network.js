// The network on a canvas. Links are drawn once and kept as a picture until they change; nodes and what travels are
// drawn for every frame. A thousand nodes take a few milliseconds so, without a library and without WebGL.

const SUNFLOWER = Math.PI * (3 - Math.sqrt(5));
const SIDE = 10000;
const TRAVEL_US = 400000;
const SHADES = 8;

export class Network {
  constructor(canvas, chosen) {
    this.canvas = canvas;
    this.pen = canvas.getContext("2d");
    this.kept = document.createElement("canvas");
    this.keptFor = "";
    this.x = new Float64Array(0);
    this.y = new Float64Array(0);
    this.zoom = 1;
    this.middle = [0.5, 0.5];
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", () => this.readColours());
    this.readColours();
    this.listen(chosen);
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    this.colours = Object.fromEntries(["link", "node", "down", "first", "last", "good", "bad", "ink", "accent"].map((name) => [name, get(name)]));
    this.shades = Array.from({ length: SHADES }, (_, at) => `color-mix(in oklab, ${this.colours.last} ${(100 * at) / (SHADES - 1)}%, ${this.colours.first})`);
    this.standings = Array.from({ length: SHADES }, (_, at) => `color-mix(in oklab, ${this.colours.good} ${(100 * at) / (SHADES - 1)}%, ${this.colours.node})`);
    this.keptFor = "";
  }

  // On a disc, or where the source laid them out.
  place(count, places) {
    this.x = new Float64Array(count);
    this.y = new Float64Array(count);
    for (let at = 0; at < count; at += 1) {
      const laid = places && 2 * at + 1 < places.length;
      const [angle, radius] = [at * SUNFLOWER, 0.47 * Math.sqrt((at + 0.5) / count)];
      this.x[at] = laid ? places[2 * at] / SIDE : 0.5 + radius * Math.cos(angle);
      this.y[at] = laid ? places[2 * at + 1] / SIDE : 0.5 + radius * Math.sin(angle);
    }
    this.keptFor = "";
  }

  // Around the publisher, the farther out the later; near those they have it from. Who has it not stands at the rim.
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
    this.keptFor = "";
  }

  // `view` says what to draw: moment, layer, version, message, now, colour, node.
  draw(view) {
    this.fit();
    const { pen, width, height } = this;
    this.keepLinks(view);
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.drawImage(this.kept, 0, 0);
    if (view.colour === "message" && view.message && !this.calm.matches) this.drawTravel(view);
    this.drawNodes(view);
  }

  fit() {
    const scale = Math.min(window.devicePixelRatio || 1, 2);
    const width = Math.max(1, Math.round(this.canvas.clientWidth * scale));
    const height = Math.max(1, Math.round(this.canvas.clientHeight * scale));
    if (this.canvas.width !== width || this.canvas.height !== height) {
      Object.assign(this.canvas, { width, height });
      Object.assign(this.kept, { width, height });
      this.keptFor = "";
    }
    Object.assign(this, { width, height, scale });
    const side = Math.min(width, height) * this.zoom;
    this.across = Float64Array.from(this.x, (value) => width / 2 + (value - this.middle[0]) * side);
    this.down = Float64Array.from(this.y, (value) => height / 2 + (value - this.middle[1]) * side);
    this.radius = Math.max(1.6, Math.min(9, (0.28 * side) / Math.sqrt(Math.max(this.x.length, 1)) / 2));
  }

  keepLinks({ moment, layer, version, node }) {
    const wanted = `${version} ${layer} ${this.zoom} ${this.middle} ${node}`;
    if (this.keptFor === wanted) return;
    this.keptFor = wanted;
    const pen = this.kept.getContext("2d");
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

  // What was delivered a moment ago, as lines from whom it came, fading.
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
    const classes = new Map();
    const colour = this.colouring(view);
    for (let place = 0; place < this.x.length; place += 1) {
      const found = view.moment.up[place] ? colour(place) : "";
      if (!classes.has(found)) classes.set(found, []);
      classes.get(found).push(place);
    }
    const { pen, across, down, radius } = this;
    for (const [fill, places] of classes) {
      pen.beginPath();
      for (const place of places) {
        if (fill === "") {
          pen.moveTo(across[place] - radius, down[place] - radius);
          pen.lineTo(across[place] + radius, down[place] + radius);
          pen.moveTo(across[place] + radius, down[place] - radius);
          pen.lineTo(across[place] - radius, down[place] + radius);
        } else {
          pen.moveTo(across[place] + radius, down[place]);
          pen.arc(across[place], down[place], radius, 0, 2 * Math.PI);
        }
      }
      pen.lineWidth = this.scale;
      if (fill === "") pen.strokeStyle = this.colours.down;
      else pen.fillStyle = fill;
      if (fill === "") pen.stroke();
      else pen.fill();
    }
    if (view.colour === "message" && view.message && view.message.publisher >= 0) this.ring(view.message.publisher, this.colours.ink);
    if (view.node !== null) this.ring(view.node, this.colours.accent);
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
        return score < 0 ? this.colours.bad : this.standings[Math.min(SHADES - 1, Math.floor((SHADES * score) / most))];
      };
    }
    if (colour === "links") {
      const links = moment.links(layer);
      const most = Math.max(...links, 1);
      return (place) => this.standings[Math.min(SHADES - 1, Math.floor((SHADES * links[place]) / (most + 1)))];
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
