// The spread of a message as an animation; a message is chosen by name (the slowest, …), number or id.
const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const TURN = 8192;
// The choice is kept when the figure is drawn again: the name of a list, or the typed text.
const chosen = { list: "typical", typed: "" };

function drawSpread(box, figure, series) {
  const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const chooser = spreadChooser(box, series);
  const player = html(box, "div", { class: "player" });
  const button = html(player, "button", { type: "button", class: "play" }, "Play");
  const slider = html(player, "input", { type: "range", min: 0, max: 1000, value: 1000, step: 1, "aria-label": "time after publication" });
  const clock = html(player, "output", { class: "clock" });
  const words = html(box, "div", { class: "tools" });
  const parts = multiples(box, series, (part, each) => ({ part: html(part, "div"), each }));
  let [end, bend, shows] = [1, 1, []];

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
  // Playing the whole spread takes six seconds; with reduced motion, it shows ten still pictures.
  const play = () => {
    const from = slider.value >= 1000 ? 0 : slider.value / 1000;
    const began = performance.now();
    button.textContent = "Pause";
    const next = () => {
      if (!box.isConnected || !player.isConnected) return;
      let share = Math.min(1, from + (performance.now() - began) / 6000);
      if (reducedMotion) share = Math.floor(share * 10) / 10;
      seek(share);
      if (share >= 1) stop();
      else frame = reducedMotion ? setTimeout(next, 600) : requestAnimationFrame(next);
    };
    next();
  };
  button.addEventListener("click", () => (frame ? stop() : play()));
  slider.addEventListener("input", () => {
    stop();
    seek(slider.value / 1000);
  });
  chooser.changed = () => {
    stop();
    const found = parts.map(({ part, each }) => {
      part.replaceChildren();
      const [message, missing] = chooser.messageOf(each);
      html(part, "p", { class: "message", role: "status" }, message ? messageWords(each, message) : missing);
      return message && { part, run: each.run, message: unpackedMessage(message) };
    }).filter(Boolean);
    const after = found.flatMap(({ message }) => message.after).sort((a, b) => a - b);
    end = Math.max(after[after.length - 1] ?? 0, 1);
    // With a long tail, most of the spread would be over at once. So the middle of the slider is the median delivery.
    const median = after[after.length >> 1] || end / 2;
    bend = Math.min(8, Math.max(1, Math.log(median / end) / Math.log(0.5)));
    const notes = ["Centre: the publisher."];
    if (found.some(({ message }) => message.vias.includes("iwant"))) notes.push("Hollow: the copy was requested (IWANT).");
    if (bend > 1.5) notes.push("Time runs faster towards the end.");
    words.textContent = notes.join(" ");
    shows = found.map(({ part, run, message }) => spreadPicture(part, figure, run, message));
    seek(1);
  };
  chooser.show();
}

// The controls: a list, a field for a number or a part of an id, and steps through the numbers.
function spreadChooser(box, series) {
  const numbers = [...new Set(series.flatMap((each) => each.messages.map((one) => one.number)))].sort((a, b) => a - b);
  const lists = [...new Set(series.flatMap((each) => Object.keys(each.lists)))];
  const chooser = { changed: null, show: () => chooser.changed() };
  const messageOf = (each) => {
    if (chosen.typed === "") {
      const number = each.lists[chosen.list] ?? each.lists.typical;
      return [each.messages.find((one) => one.number === number)];
    }
    const whole = each.messages.find((one) => String(one.number) === chosen.typed);
    const part = chosen.typed.toLowerCase().replace(/^0x/, "");
    const begun = each.messages.filter((one) => one.id && (one.id.startsWith(part) || one.id.endsWith(part)));
    if (whole || begun.length === 1) return [whole ?? begun[0]];
    if (begun.length) return [null, `The ids of ${begun.length} messages begin or end with ${shortened(chosen.typed)}: enter more of it.`];
    const there = each.messages.map((one) => one.number);
    const which = `${there.length} of them, from ${Math.min(...there)} to ${Math.max(...there)}`;
    return [null, `No message ${shortened(chosen.typed)} on this page. There are ${which}.`];
  };
  chooser.messageOf = messageOf;
  if (numbers.length < 2) return chooser;

  const bar = html(box, "div", { class: "player chooser" });
  const listLabel = html(bar, "label", {}, "Message ");
  const list = html(listLabel, "select");
  for (const name of lists) html(list, "option", { value: name }, name);
  const other = html(list, "option", { value: "", hidden: "" }, "by number");
  const before = html(bar, "button", { type: "button", class: "step", "aria-label": "previous message" }, "◀");
  const numberLabel = html(bar, "label", {}, "number ");
  const field = html(numberLabel, "input", { type: "text", size: 9, autocomplete: "off", spellcheck: "false" });
  const after = html(bar, "button", { type: "button", class: "step", "aria-label": "next message" }, "▶");
  if (series.some((each) => each.messages.some((one) => one.id))) numberLabel.firstChild.textContent = "number or id ";
  field.title = "Arrow keys go to the previous and next message, Page Up and Page Down ten further, Home and End to the ends.";

  const shownNumber = () => series.map((each) => messageOf(each)[0]).find(Boolean)?.number;
  chooser.show = () => {
    list.value = chosen.typed === "" ? chosen.list : "";
    other.hidden = chosen.typed === "";
    field.value = chosen.typed === "" ? shownNumber() : chosen.typed;
    chooser.changed();
  };
  const choose = (typed) => {
    chosen.typed = typed;
    chooser.show();
  };
  const goTo = (place) => {
    choose(String(numbers[Math.max(0, Math.min(numbers.length - 1, place))]));
  };
  const go = (steps) => {
    const from = shownNumber() ?? Number(chosen.typed);
    const at = numbers.findIndex((number) => number >= from);
    const place = at < 0 ? numbers.length : at;
    goTo(place + steps - (steps > 0 && numbers[place] !== from ? 1 : 0));
  };
  list.addEventListener("change", () => {
    chosen.list = list.value;
    choose("");
  });
  before.addEventListener("click", () => go(-1));
  after.addEventListener("click", () => go(1));
  field.addEventListener("input", () => {
    choose(field.value.trim());
    if (chosen.typed === "") field.value = "";
  });
  field.addEventListener("change", () => chooser.show());
  field.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (steps) go(steps);
    else if (event.key === "Home") goTo(0);
    else if (event.key === "End") goTo(numbers.length - 1);
    else return;
    event.preventDefault();
  });
  if (!lists.includes(chosen.list)) chosen.list = "typical";
  return chooser;
}

function shortened(id) {
  return id.length > 24 ? `${id.slice(0, 8)}…${id.slice(-12)}` : id;
}

function messageWords(each, message) {
  const id = message.id ? ` (${shortened(message.id)})` : "";
  const facts = [`message ${message.number}${id}`];
  const publisher = message.publisher == null ? "" : ` by node ${message.publisher}`;
  if (message.at != null) facts.push(`published${publisher} at ${formats.s(message.at)}`);
  if (message.delivered != null) facts.push(message.delivered === 1 ? "1 delivery" : `${formats.count(message.delivered)} deliveries`);
  if (message.ratio != null) facts.push(`${percent(message.ratio)} of the due ones`);
  if (message.half != null) facts.push(`half within ${formats.ms(message.half)}`);
  if (message.last != null) facts.push(`the last after ${formats.ms(message.last)}`);
  return `${facts.join(", ")}.`;
}

// Decode base64 VLQ: digits of five bits, the lowest first; the sixth bit is set if digits follow. The lowest bit of a
// number is its sign.
function unpacked(text) {
  const values = [];
  let [value, factor] = [0, 1];
  for (const letter of text) {
    const digit = DIGITS.indexOf(letter);
    value += (digit % 32) * factor;
    factor *= 32;
    if (digit >= 32) continue;
    values.push(value % 2 ? -(value - 1) / 2 : value / 2);
    [value, factor] = [0, 1];
  }
  return values;
}

function unpackedMessage(message) {
  const values = unpacked(message.packed);
  const column = (place) => values.slice(place * message.count, (place + 1) * message.count);
  const [nodes, back, after, ring, turned, via] = [0, 1, 2, 3, 4, 5].map(column);
  const [parents, angle, x, y] = [[], [], [], []];
  let [node, time] = [0, 0];
  for (let index = 0; index < message.count; index += 1) {
    nodes[index] = node += nodes[index];
    time += after[index];
    after[index] = time / 1000;
    parents[index] = back[index] ? index - back[index] : -1;
    ring[index] += back[index] ? ring[parents[index]] + 1 : 1;
    angle[index] = turned[index] + (back[index] ? angle[parents[index]] : 0);
    const turn = (angle[index] / TURN) * 2 * Math.PI;
    x[index] = Math.round(SIDE / 2 + message.rings[ring[index]] * Math.cos(turn));
    y[index] = Math.round(SIDE / 2 + message.rings[ring[index]] * Math.sin(turn));
  }
  return { nodes, parents, x, y, ring, rings: message.rings, after, via, vias: message.vias };
}

function spreadPicture(part, figure, run, each) {
  const about = `${each.nodes.length} deliveries in ${each.rings.length - 1} rings.`;
  const surface = drawing(part, figure, `-20 -20 ${SIDE + 40} ${SIDE + 40}`, "picture spread", about, data.runs[run]);
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
