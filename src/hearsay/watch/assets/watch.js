// The page: it receives and draws frames, and sends the requests of users.

import { bars, curves, squares } from "./curves.js";
import { Network } from "./network.js";
import { CONNECTIONS, State, reachedAt } from "./state.js";
import { amount, bytes, count, facts, milliseconds, percent, seconds, shown, write } from "./words.js";

const PANELS_MS = 250;
const CLOCK_MS = 100;
const WINDOW_US = 10e6;
const BINS = 60;
const TIMED = 120;
const EDGES_MS = Array.from({ length: 551 }, (_, power) => 1.25 ** (power / 10));
const [PUBLISHED, DELIVERED, COPIES, CONTROL, BYTES] = [0, 1, 2, 3, 4];
const NEWEST = "newest";
const QUANTILES = [0.5, 0.9, 0.99];
const ACTIONS = ["publish", "crash", "return", "stop"];

const get = (id) => document.getElementById(id);
const state = new State();
const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");
let shownIndex = null; // index of the frame that is shown; null is the live one
let node = null;
let shownMoment = { at: null, moment: null };
let placed = "";
let isPaintQueued = false;
let panelsShownAt = -PANELS_MS; // time at which the panels were drawn last
let clockShownAt = -CLOCK_MS;
let densityFor = "";
let degreesFor = ""; // topic and links of the last request for the bars of links
const userChosen = new Set(); // ids of lists in which the user has chosen; the choice is kept
const drawn = [];
const arrived = [];

const network = new Network(get("network"), get("links"), (found) => {
  if (found !== undefined) selectNode(found);
  redraw();
});

// The shown state.

function layer() {
  return get("topic").value === "" ? CONNECTIONS : Number(get("topic").value);
}

function messages() {
  const topic = layer();
  const now = moment().now;
  return [...state.messages.values()].filter((each) => (topic === CONNECTIONS || each.topic === topic) && each.published <= now);
}

function message() {
  const chosen = get("message").value;
  const all = messages();
  if (chosen !== NEWEST) return state.messages.get(Number(chosen)) ?? null;
  return all.findLast((each) => each.reached > 0) ?? all.at(-1) ?? null;
}

function moment() {
  if (shownIndex === null) return state.live;
  if (shownMoment.at !== state.dropped + shownIndex) shownMoment = { at: state.dropped + shownIndex, moment: state.at(shownIndex) };
  return shownMoment.moment;
}

function redraw() {
  if (isPaintQueued) return;
  isPaintQueued = true;
  requestAnimationFrame(paint);
}

function view() {
  const now = moment();
  const version = shownIndex === null ? `live ${state.version}` : `past ${state.dropped + shownIndex}`;
  return { moment: now, layer: layer(), version, message: message(), now: now.now, colour: get("colour").value, node };
}

function paint() {
  isPaintQueued = false;
  const began = performance.now();
  putInPlace();
  if (network.draw(view())) {
    drawn.push(performance.now() - began);
    if (drawn.length > TIMED) drawn.shift();
  }
  if (began - clockShownAt >= CLOCK_MS) showClock();
  if (began - panelsShownAt >= PANELS_MS) {
    panelsShownAt = began;
    showAll();
  }
}

function putInPlace() {
  const how = get("places").value;
  const chosen = how === "time" ? message() : null;
  const places = how === "links" ? state.about.places : null;
  const wantedPlaces = `${how} ${state.nodes.length} ${places?.length} ${places?.[0]} ${chosen?.serial} ${chosen?.steps.length}`;
  if (wantedPlaces === placed) return;
  placed = wantedPlaces;
  if (chosen) network.placeByArrival(state.nodes.length, chosen);
  else network.place(state.nodes.length, places);
}

// The panels.

function showClock() {
  clockShownAt = performance.now();
  write(get("clock"), seconds(moment().now));
}

// Show the state of the connection. Update the clock, too, so that a paused run shows the time at which it paused.
function showLink() {
  const { over, paused, gone } = state.state;
  const words = over ? "over" : paused ? "paused" : gone ? `live, ${count(gone)} disconnected` : "live";
  get("link").className = "";
  if (get("link").textContent === words) return;
  write(get("link"), words);
  showClock();
}

function showAll() {
  showChoices();
  const now = moment();
  const all = state.about.of ?? state.nodes.length;
  const sampled = state.nodes.length < all ? `; ${count(state.nodes.length)} drawn` : "";
  write(get("about"), state.about.source ? `${state.about.source}: ${count(now.alive)} of ${count(all)} nodes up${sampled}` : "");
  get("network").setAttribute("aria-label", `The network: ${count(now.alive)} of ${count(all)} nodes up at ${seconds(now.now)}`);
  write(get("pause"), state.state.paused ? "Go on" : "Pause");
  get("pause").disabled = !can("pause") || state.state.over;
  get("paces").hidden = !can("pace");
  showPace();
  get("when").max = Math.max(state.frames.length - 1, 0);
  if (shownIndex === null) get("when").value = get("when").max;
  get("live").setAttribute("aria-pressed", String(shownIndex === null));
  get("keep").hidden = !state.state.touches;
  showRun(now);
  showMessage(now);
  showDensity(now);
  showRates();
  showCourse();
  showLinks(now);
  showScores(now);
  const { lost, refused } = now;
  const lines = [...Object.entries(lost).map(([why, many]) => [`lost: ${why}`, many]), ...Object.entries(refused).map(([why, many]) => [`refused: ${why}`, many])];
  facts(get("refused"), lines.length ? lines.map(([why, many]) => [why.replaceAll("_", " "), count(many)]) : [["nothing", ""]]);
  showFrames();
}

function showPace() {
  const select = get("pace");
  if (document.activeElement === select || state.state.pace === undefined) return;
  const pace = String(state.state.pace ?? "max");
  if (![...select.options].some((option) => option.value === pace)) select.prepend(new Option(`${pace}x`, pace));
  select.value = pace;
}

function showChoices() {
  const topics = [...state.topics.map(String), ""];
  options(get("topic"), topics, (value) => shown(state.name(value === "" ? CONNECTIONS : Number(value))));
  const known = messages().slice(-100).reverse();
  const names = new Map(known.map((each) => [String(each.serial), each]));
  const kept = get("message").value;
  if (kept && kept !== NEWEST && !names.has(kept) && state.messages.has(Number(kept))) names.set(kept, state.messages.get(Number(kept)));
  options(get("message"), [NEWEST, ...names.keys()], (value) => (value === NEWEST ? NEWEST : `${names.get(value).name.slice(-8)} at ${seconds(names.get(value).published)}`));
}

function options(select, values, text) {
  const there = [...select.options].map((option) => option.value);
  if (there.length === values.length && there.every((value, at) => value === values[at])) return;
  const chosen = userChosen.has(select.id) ? select.value : values[0];
  select.replaceChildren(...values.map((value) => new Option(text(value), value)));
  select.value = values.includes(chosen) ? chosen : values[0];
}

// Show the numbers of the run so far, as in its summary.
function showRun({ run }) {
  const late = run.latency_ms ?? [];
  const lines = ["p50", "p90", "p99", "longest"].map((title, at) => [title, late.length ? milliseconds(late[at]) : "–"]);
  facts(get("run"), [["delivered", run.due ? `${percent(run.reached, run.due)} of ${count(run.due)} due` : "–"], ...lines]);
}

function showMessage(now) {
  const chosen = message();
  write(get("legend"), legend(chosen, now));
  if (!chosen) {
    write(get("reached"), "Nothing has been published so far.");
    curves(get("coverage"), [], ["", ""], ["", ""]);
    return;
  }
  const reached = shownIndex === null ? chosen.reached : reachedAt(chosen, now.now);
  const size = chosen.size ? `, ${bytes(chosen.size)}` : "";
  const words = chosen.members ? `${count(reached)} of ${count(chosen.members)} nodes in the topic (${percent(reached, chosen.members)})` : "no other node is known to be in the topic";
  write(get("reached"), `Message ${chosen.name.slice(-8)} of topic ${shown(state.name(chosen.topic))}${size}: ${words}, ${seconds(Math.max(now.now - chosen.published, 0))} after it was published`);
  const late = [];
  for (let at = 2; at < chosen.steps.length; at += 4) if (chosen.steps[at] <= now.now - chosen.published) late.push(chosen.steps[at]);
  late.sort((one, other) => one - other);
  const last = late.at(-1) ?? 1;
  const share = chosen.members ? reached / chosen.members : 1;
  const points = [[0, 0], ...late.map((value, at) => [value / last, (share * (at + 1)) / late.length])];
  curves(get("coverage"), [["first", points]], ["0 ms", late.length ? milliseconds(last / 1000) : ""], ["0 %", "100 %"]);
}

// Show the spread among all nodes of a network, if only a sample of the nodes is drawn.
async function showDensity(now) {
  const chosen = message();
  const all = state.about.of ?? 0;
  get("density-card").hidden = !chosen || state.nodes.length >= all;
  if (get("density-card").hidden) return;
  const late = Math.max(Math.round(now.now - chosen.published), 0);
  const wantedDensity = `${chosen.serial} ${shownIndex === null ? chosen.reached : late}`;
  if (densityFor === wantedDensity) return;
  densityFor = wantedDensity;
  const found = await ask({ do: "density", message: chosen.serial, late });
  if (!found?.due || wantedDensity !== densityFor) return;
  const [due, arrived] = [found.due, found.arrived].map((each) => each.reduce((sum, value) => sum + value, 0));
  write(get("density-words"), `${count(arrived)} of ${count(due)} nodes have the message. Each square is ${amount(all / found.due.length)} nodes on average, with neighbouring numbers.`);
  squares(get("density"), found.due.map((value, at) => (value ? found.arrived[at] / value : null)));
}

function legend(chosen, now) {
  const colour = get("colour").value;
  const origin = chosen?.publisher >= 0 ? "the black disc is the publisher" : "rings mark nodes that got it from the publisher, which is not drawn";
  if (colour === "message") return chosen ? `Nodes that have the message: blue early, orange late; ${origin}. Crosses are down.` : "Crosses are nodes that are down.";
  if (colour === "score") return now.scores.size ? "The greener, the higher the mean score that peers give to a node; red: below zero." : "No scores in this run: the routers have none, or scores.every_s is 0.";
  if (colour === "links") return "The greener, the more links of the topic.";
  return "Blue nodes have links of the topic.";
}

function recent() {
  const end = shownIndex === null ? state.frames.length : shownIndex + 1;
  const last = state.frames[end - 1]?.now ?? 0;
  const found = [];
  for (let at = end - 1; at >= 0 && state.frames[at].now > last - WINDOW_US; at -= 1) found.push(state.frames[at]);
  return [found.reverse(), last];
}

function showRates() {
  const [frames, last] = recent();
  const from = Math.max(last - WINDOW_US, frames[0]?.now ?? 0);
  const span = Math.max(last - from, 1) / 1e6;
  const sums = new Array(7).fill(0);
  const series = [new Array(BINS).fill(0), new Array(BINS).fill(0)];
  const latencies = new Array(EDGES_MS.length + 1).fill(0);
  for (const frame of frames) {
    (frame.rates ?? []).forEach((value, at) => (sums[at] += value));
    const bin = Math.min(BINS - 1, Math.floor((BINS * (frame.now - from)) / (span * 1e6)));
    if (bin >= 0 && frame.rates) {
      series[0][bin] += frame.rates[DELIVERED];
      series[1][bin] += frame.rates[COPIES];
    }
    const counts = frame.latencies ?? [];
    for (let at = 0; at < counts.length; at += 2) latencies[counts[at]] += counts[at + 1];
  }
  facts(get("rates"), [
    ["published", `${amount(sums[PUBLISHED] / span)} /s`],
    ["delivered", `${amount(sums[DELIVERED] / span)} /s`],
    ["copies sent", `${amount(sums[COPIES] / span)} /s`],
    ["copies per delivery", sums[DELIVERED] ? amount(sums[COPIES] / sums[DELIVERED]) : "–"],
    ["control parts", `${amount(sums[CONTROL] / span)} /s`],
    ["sent", `${bytes(sums[BYTES] / span)}/s`],
  ]);
  const most = Math.max(...series[0], ...series[1], 1);
  const points = (values) => values.map((value, at) => [at / (BINS - 1), value / most]);
  const top = `${amount((most * BINS) / span)} /s`;
  curves(get("rate"), [["node", points(series[1])], ["first", points(series[0])]], [`${span.toFixed(1)} s ago`, "now"], ["0", top]);
  showLatencies(latencies);
}

function showLatencies(latencies) {
  const all = latencies.reduce((sum, value) => sum + value, 0);
  write(get("latency-words"), `${all ? count(all) : "No"} deliveries in the last ${WINDOW_US / 1e6} s, share by latency:`);
  const first = latencies.findIndex((value) => value);
  const last = latencies.findLastIndex((value) => value);
  const edges = all ? [first - 1, last].map((edge) => (edge < 0 ? "0 ms" : milliseconds(edgeOf(edge)))) : ["", ""];
  bars(get("latency"), all ? latencies.slice(first, last + 1) : [], edges, ["0 %", percent(Math.max(...latencies), all)]);
}

// Draw p50, p90 and p99 in each interval of the time for which frames are stored.
function showCourse() {
  const end = shownIndex === null ? state.frames.length : shownIndex + 1;
  const from = state.frames[0]?.now ?? 0;
  const span = Math.max((state.frames[end - 1]?.now ?? 0) - from, 1);
  const bins = Array.from({ length: BINS }, () => new Array(EDGES_MS.length + 1).fill(0));
  for (let at = 0; at < end; at += 1) {
    const counts = state.frames[at].latencies ?? [];
    const bin = bins[Math.min(BINS - 1, Math.floor((BINS * (state.frames[at].now - from)) / span))];
    for (let each = 0; each < counts.length; each += 2) bin[counts[each]] += counts[each + 1];
  }
  const courses = QUANTILES.map((share) => bins.map((bin) => classOf(bin, share)));
  const known = courses.flat().filter((value) => value !== null);
  const most = Math.max(...known, 0);
  const points = (course) => course.flatMap((value, at) => (value === null ? [] : [[at / (BINS - 1), edgeOf(value) / edgeOf(most)]]));
  write(get("course-words"), known.length ? "Over time: blue p50, green p90, orange p99." : "");
  curves(get("course"), courses.map((course, at) => [["first", "good", "last"][at], points(course)]), [seconds(from), seconds(from + span)], ["0 ms", known.length ? milliseconds(edgeOf(most)) : ""]);
}

// Return the upper end of a class of latencies, in ms.
function edgeOf(latencyClass) {
  return EDGES_MS[Math.min(latencyClass, EDGES_MS.length - 1)];
}

// Return the class in which the cumulative count reaches a share of the deliveries; null without deliveries.
function classOf(bin, share) {
  const all = bin.reduce((sum, value) => sum + value, 0);
  let sum = 0;
  return all ? bin.findIndex((value) => (sum += value) >= share * all) : null;
}

function showLinks(now) {
  const at = state.topics.indexOf(layer());
  const [members, links] = now.members[at] ?? [0, 0];
  const each = `${amount(links / members)} ${links === members ? "link" : "links"}`;
  const words = members === 1 ? (state.about.source === "node" ? `This node has ${each}.` : `1 member with ${each}`) : `${count(members)} members with ${each} each`;
  write(get("links-words"), members ? words : "No node is in the topic.");
  if (at >= 0 && shownIndex === null) showDegrees();
  if (node !== null) showNode();
}

async function showDegrees() {
  const wantedDegrees = `${layer()} ${state.linksVersion}`;
  if (degreesFor === wantedDegrees) return;
  degreesFor = wantedDegrees;
  const degrees = await ask({ do: "degrees", topic: layer() });
  if (!degrees) return;
  bars(get("degrees"), degrees, ["0", `${Math.max(degrees.length - 1, 0)} links`], ["0", `${count(Math.max(...degrees, 0))} nodes`]);
}

function showScores(now) {
  const { scored } = now;
  get("scores-card").hidden = !scored;
  if (!scored) return;
  const [least, low, half, high, most] = scored.quantiles.map((value) => value.toFixed(1));
  write(get("scores"), `From ${least} to ${most}; half are below ${half}, nine in ten from ${low} to ${high}; ${count(scored.below[0])} of ${count(scored.below[1])} are below zero.`);
}

async function showNode() {
  const chosen = node;
  const about = await ask({ do: "node", place: chosen });
  if (!about || chosen !== node) return;
  const topics = about.topics.slice(0, 8).map(([topic, links]) => [`links, ${shown(state.name(topic))}`, count(links)]);
  facts(get("node-facts"), [
    ["node", name(about.node)], ["is", about.up ? "up" : "down"], ...topics,
    ["published", count(about.traffic.published)], ["delivered", count(about.traffic.delivered)],
    ["copies sent", count(about.traffic.copies)], ["sent", bytes(about.traffic.bytes)], ["refused", count(about.traffic.refused)],
    ...(about.score === null ? [] : [["mean score, from its peers", about.score.toFixed(1)]]),
  ]);
  const isOpen = (action) => !state.state.over && (about.can ?? state.about.can).includes(action);
  for (const action of ACTIONS) get(action).disabled = !isOpen(action) || about.up === (action === "return");
  showActions();
}

function showActions() {
  for (const action of ACTIONS) get(action).hidden = !can(action);
  get("actions").hidden = !ACTIONS.some(can);
}

function showFrames() {
  const updates = arrived.length > 1 ? ((arrived.length - 1) * 1000) / (arrived.at(-1) - arrived[0]) : 0;
  const middle = [...drawn].sort((one, other) => one - other)[Math.floor(drawn.length / 2)] ?? 0;
  write(get("frames"), `${updates.toFixed(0)} updates a second; a frame is drawn in ${middle.toFixed(1)} ms (median of ${drawn.length}, Canvas 2D).${state.state.unseen ? ` ${count(state.state.unseen)} rows came too fast to be shown.` : ""}${state.state.late ? ` ${count(state.state.late)} rows came too late to be shown in order.` : ""}`);
}

// Requests of users.

function can(what) {
  return state.about.can.includes(what);
}

// Send a request and return the answer: null if it is refused, undefined if no answer comes.
async function ask(request) {
  try {
    const response = await fetch("do", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(request) });
    if (response.ok) return await response.json();
    write(get("done"), await response.text());
    return null;
  } catch {
    return undefined; // if the source is gone, the stream of frames reports it
  }
}

// Request an action, and show a message if no answer comes.
async function askOrWarn(request) {
  const answer = await ask(request);
  if (answer === undefined) write(get("done"), "There was no answer; perhaps the action failed.");
  return answer;
}

function selectNode(found) {
  node = found;
  get("node").hidden = node === null;
  get("node-none").hidden = node !== null;
  showActions();
  if (node !== null) showNode();
}

async function requestAction(action, word, chosen = node) {
  if (chosen === null || !can(action)) return;
  const topic = layer() === CONNECTIONS ? (state.topics[0] ?? 0) : layer();
  const answer = await askOrWarn({ do: action, place: chosen, topic });
  if (answer) write(get("done"), `Node ${name(answer.node).slice(-8)} ${word} at ${seconds(answer.at)}.`);
  showNode();
}

// A page cannot start a real node again, so ask before stopping it. The node of the question is stopped, even if the user
// selects another one meanwhile.
function askToStop() {
  if (node === null || get("stop").disabled) return;
  const chosen = node;
  const dialog = get("stopping");
  write(get("stopping-node"), name(state.nodes[chosen]));
  dialog.returnValue = "";
  dialog.onclose = () => {
    if (dialog.returnValue === "stop") requestAction("stop", "stops", chosen);
  };
  dialog.showModal();
}

function name(number) {
  return shown(String(state.about.peers?.[number] ?? number));
}

function show(at) {
  const last = Math.max(state.frames.length - 1, 0);
  shownIndex = at === null || at >= last ? null : Math.max(at, 0);
  get("when").value = shownIndex ?? last;
  panelsShownAt = clockShownAt = -PANELS_MS;
  redraw();
}

const scrub = (by) => show((shownIndex ?? state.frames.length - 1) + by);

function moveSelection(select, by) {
  const { length } = select.options;
  if (length) select.selectedIndex = (select.selectedIndex + by + length) % length;
  onChosen(select.id);
}

function onChosen(id) {
  userChosen.add(id);
  if (id === "places" && get(id).value === "links") ask({ do: "places" });
  panelsShownAt = -PANELS_MS;
  redraw();
}

const pause = () => can("pause") && askOrWarn({ do: "pause", paused: !state.state.paused });
const publish = () => requestAction("publish", "publishes");
const crash = () => (can("stop") ? askToStop() : requestAction("crash", "goes down"));
const comeBack = () => requestAction("return", "comes back");
const nextNode = (by) => state.nodes.length && selectNode(((node ?? (by > 0 ? -1 : 0)) + by + state.nodes.length) % state.nodes.length);
const magnify = (factor) => network.magnify(factor);

const KEYS = {
  " ": pause,
  ArrowLeft: (event) => scrub(event.shiftKey ? -30 : -1),
  ArrowRight: (event) => scrub(event.shiftKey ? 30 : 1),
  End: () => show(null),
  t: () => moveSelection(get("topic"), 1),
  m: () => moveSelection(get("message"), 1),
  n: () => moveSelection(get("message"), -1),
  c: () => moveSelection(get("colour"), 1),
  l: () => moveSelection(get("places"), 1),
  "[": () => nextNode(-1),
  "]": () => nextNode(1),
  p: publish,
  x: crash,
  r: comeBack,
  "+": () => magnify(1.25),
  "-": () => magnify(1 / 1.25),
  0: () => magnify(0),
  "?": () => get("keys").showModal(),
  Escape: () => selectNode(null),
};

document.addEventListener("keydown", (event) => {
  // Elements of a dialog keep the focus for a moment after it was closed.
  const inside = event.target instanceof Element && event.target.checkVisibility() && event.target.closest("select, input, button, dialog, a");
  if (event.ctrlKey || event.metaKey || event.altKey || (inside && event.key !== "Escape")) return;
  const action = KEYS[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  if (!action) return;
  event.preventDefault();
  action(event);
  redraw();
});
get("pause").addEventListener("click", pause);
get("pace").addEventListener("change", () => askOrWarn({ do: "pace", pace: get("pace").value === "max" ? null : Number(get("pace").value) }));
get("when").addEventListener("input", () => show(Number(get("when").value)));
get("live").addEventListener("click", () => show(null));
get("help").addEventListener("click", () => get("keys").showModal());
get("publish").addEventListener("click", publish);
get("crash").addEventListener("click", crash);
get("stop").addEventListener("click", crash);
get("return").addEventListener("click", comeBack);
for (const id of ["topic", "message", "colour", "places"]) get(id).addEventListener("change", () => onChosen(id));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

// Frames.

const frames = new EventSource("frames");
frames.onmessage = (event) => {
  const before = state.nodes.length;
  state.apply(JSON.parse(event.data));
  arrived.push(performance.now());
  if (arrived.length > TIMED) arrived.shift();
  showLink();
  if (!before && state.nodes.length) panelsShownAt = -PANELS_MS;
  const began = performance.now();
  if (reducedMotion.matches ? began >= panelsShownAt + PANELS_MS : began >= clockShownAt + CLOCK_MS || network.isNew(view())) redraw();
};
frames.addEventListener("awaited", (event) => write(get("link"), JSON.parse(event.data)));
frames.onerror = () => {
  write(get("link"), "the source is gone");
  get("link").className = "lost";
};
