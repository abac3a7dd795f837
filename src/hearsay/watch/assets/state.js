// The state of the picture in the browser: it applies frames, and returns the state at any frame of the last minutes.

const MOST_FRAMES = 9000;
const SNAPSHOT_EVERY = 60;
const MOST_MESSAGES = 200;
const MOST_NODES = 1000;
export const CONNECTIONS = -1;
const PAIR = 1024;

// The state at one time: the nodes that are up, the links, and the counts.
class Moment {
  constructor() {
    this.now = 0;
    this.up = new Uint8Array(MOST_NODES);
    this.layers = new Map();
    this.members = [];
    this.alive = 0;
    this.lost = {};
    this.refused = {};
    this.run = {};
    this.scores = new Map();
    this.scored = null;
  }

  copy() {
    const other = new Moment();
    Object.assign(other, this);
    other.up = this.up.slice();
    other.layers = new Map([...this.layers].map(([layer, pairs]) => [layer, new Set(pairs)]));
    return other;
  }

  apply(changes) {
    this.now = changes.now;
    for (const place of changes.up ?? []) this.up[place] = 1;
    for (const place of changes.down ?? []) this.up[place] = 0;
    const linked = changes.linked ?? [];
    for (let at = 0; at < linked.length; at += 3) this.layer(linked[at]).add(linked[at + 1] * PAIR + linked[at + 2]);
    const unlinked = changes.unlinked ?? [];
    for (let at = 0; at < unlinked.length; at += 3) this.layer(unlinked[at]).delete(unlinked[at + 1] * PAIR + unlinked[at + 2]);
    this.members = changes.members ?? this.members;
    this.alive = changes.alive ?? this.alive;
    this.lost = changes.lost ?? this.lost;
    this.refused = changes.refused ?? this.refused;
    this.run = changes.run ?? this.run;
    if (changes.scores?.means) {
      const { means } = changes.scores;
      this.scores = new Map();
      for (let at = 0; at < means.length; at += 2) this.scores.set(means[at], means[at + 1]);
      this.scored = changes.scores;
    }
  }

  layer(number) {
    if (!this.layers.has(number)) this.layers.set(number, new Set());
    return this.layers.get(number);
  }

  // Return the linked pairs of places in one list, each pair once.
  pairs(number) {
    const ends = [];
    const pairs = this.layers.get(number) ?? [];
    for (const pair of pairs) {
      const [from, to] = [Math.floor(pair / PAIR), pair % PAIR];
      if (from < to || !pairs.has(to * PAIR + from)) ends.push(from, to);
    }
    return ends;
  }

  links(number) {
    const counts = new Uint16Array(MOST_NODES);
    for (const pair of this.layers.get(number) ?? []) counts[Math.floor(pair / PAIR)] += 1;
    return counts;
  }
}

export class State {
  constructor() {
    this.about = { names: {}, can: [] };
    this.state = {};
    this.nodes = [];
    this.topics = [];
    this.messages = new Map();
    this.live = new Moment();
    this.frames = [];
    this.snapshots = [];
    this.dropped = 0;
    this.version = 0; // increases when the drawing of the live state changes, except for messages
    this.linksVersion = 0; // increases when numbers of links change
  }

  apply(changes) {
    const whole = changes.about !== undefined;
    if (whole) {
      this.about = changes.about;
      this.live = new Moment();
      this.nodes = [];
      this.topics = [];
    }
    this.state = changes.state;
    for (const key of ["end", "places", "names", "peers", "can"]) if (changes[key] !== undefined) this.about[key] = changes[key];
    if (changes.nodes) this.nodes.push(...changes.nodes);
    if (changes.topics) this.topics.push(...changes.topics);
    for (const message of changes.messages ?? []) this.addMessage(message);
    if (whole && changes.past && !this.frames.length) this.addPast(changes.past);
    this.live.apply(changes);
    if (whole || changes.linked || changes.unlinked || changes.up || changes.down || changes.scores) this.version += 1;
    if (changes.linked || changes.unlinked || changes.members) this.linksVersion += 1;
    for (const progress of changes.spread ?? []) this.addSteps(progress, whole, changes.now);
    this.store(changes, whole);
  }

  // Store the merged frames from before this page was opened. The snapshot is applied after them.
  addPast(past) {
    for (const frame of past) {
      this.live.apply(frame);
      for (const [serial, reached] of frame.spread ?? []) this.messages.get(serial)?.counted.push(frame.now, reached);
      this.store(frame, false);
    }
    this.live = new Moment();
  }

  addMessage([serial, name, topic, publisher, published, members, size]) {
    if (this.messages.has(serial)) return;
    this.messages.set(serial, { serial, name, topic, publisher, published, members, size, reached: 0, steps: [], last: 0, counted: [] });
    if (this.messages.size > MOST_MESSAGES) this.messages.delete(this.messages.keys().next().value);
  }

  addSteps([serial, reached, ...steps], whole, now) {
    const message = this.messages.get(serial);
    if (!message) return;
    if (whole) message.steps = steps;
    else for (const value of steps) message.steps.push(value);
    for (let at = 2; at < steps.length; at += 4) message.last = Math.max(message.last, steps[at]);
    message.reached = reached;
    message.counted.push(now, reached);
  }

  store({ now, rates, latencies, number, up, down, linked, unlinked, members, alive, lost, refused, scores, run }, whole) {
    const last = this.frames.at(-1);
    if (last && last.now === now && !linked && !unlinked && !up && !down) {
      return; // the run is paused
    }
    this.frames.push({ now, rates, latencies, number, up, down, linked, unlinked, members, alive, lost, refused, scores, run });
    const index = this.dropped + this.frames.length - 1;
    if (whole || index % SNAPSHOT_EVERY === 0) this.snapshots.push({ index, moment: this.live.copy() });
    if (this.frames.length > MOST_FRAMES) {
      this.frames.splice(0, SNAPSHOT_EVERY);
      this.dropped += SNAPSHOT_EVERY;
      while (this.snapshots[0].index < this.dropped) this.snapshots.shift();
    }
  }

  // Return the state at a stored frame; at a frame before the first snapshot, the state of that snapshot.
  at(position) {
    const index = this.dropped + position;
    const before = this.snapshots.filter((snapshot) => snapshot.index <= index).at(-1) ?? this.snapshots[0];
    const moment = before.moment.copy();
    for (let each = before.index + 1; each <= index; each += 1) moment.apply(this.frames[each - this.dropped]);
    return moment;
  }

  name(topic) {
    return topic === CONNECTIONS ? "connections" : (this.about.names[topic] ?? String(topic));
  }
}

// Return how many of the members of the topic at the publication had the message at a time.
export function reachedAt(message, now) {
  let found = 0;
  for (let at = 0; at < message.counted.length && message.counted[at] <= now; at += 2) found = message.counted[at + 1];
  return found;
}
