// Formats of numbers, and of names that other parties have chosen.

export function count(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, ",");
}

export function amount(value) {
  if (value >= 100 || value === 0) return count(value);
  return value.toPrecision(2).replace(/\.0$/, "");
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${amount(value)} ${units[unit]}`;
}

export function milliseconds(value) {
  return value >= 999.5 ? `${(value / 1000).toPrecision(3)} s` : `${amount(value)} ms`;
}

export function seconds(microseconds) {
  return `${(microseconds / 1e6).toFixed(2)} s`;
}

export function percent(part, whole) {
  if (!whole) return "–";
  const share = (100 * part) / whole;
  return part < whole && share > 99.9 ? "99.9 %" : `${share.toFixed(share < 10 ? 1 : 0)} %`;
}

// Return a name with unprintable characters as escapes, so that it can neither hide nor reorder the text next to it.
export function shown(name) {
  const text = name.replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0).toString(16)}}`);
  return text.length > 80 ? `${text.slice(0, 79)}…` : text;
}

// Change a text only if it differs, since each change causes a new layout of the page.
export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function facts(list, pairs) {
  while (list.children.length > 2 * pairs.length) list.lastElementChild.remove();
  while (list.children.length < 2 * pairs.length) list.append(document.createElement("dt"), document.createElement("dd"));
  pairs.flat().forEach((text, at) => write(list.children[at], text));
}
