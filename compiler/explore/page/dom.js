// Elements, whose texts are always text, and numbers as people read them.

/** An element; what stands in `children` as a string becomes text, whatever is in it. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'className' || name === 'value') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== ''));
  return element;
}

/** A table; cells that are numbers stand right. `heads`: names of columns. */
export function table(caption, heads, rows, {most = 200, id} = {}) {
  const body = h('tbody');
  const show = count => {
    for (const cells of rows.slice(body.rows.length, count))
      body.append(h('tr', {}, cells.map((cell, i) =>
        h(i ? 'td' : 'th', {scope: i ? null : 'row', className: typeof cell === 'string' && /^[\d.,]+( ?[\w%µ]{1,3})?$/.test(cell) ? 'number' : ''},
          cell))));
    more.hidden = body.rows.length >= rows.length;
    more.textContent = `${rows.length - body.rows.length} more`;
  };
  const more = h('button', {type: 'button', className: 'more', onclick: () => show(body.rows.length + 2000)});
  show(most);
  return h('div', {className: 'table', id},
    h('table', {}, h('caption', {}, caption),
      h('thead', {}, h('tr', {}, heads.map(head => h('th', {scope: 'col'}, head)))), body), more);
}

export function bytesText(bytes) {
  for (const [unit, size] of [['TB', 1e12], ['GB', 1e9], ['MB', 1e6], ['kB', 1e3]])
    if (bytes >= size) return `${(bytes / size).toFixed(2)} ${unit}`;
  return `${bytes.toFixed(0)} B`;
}

export function timeText(ns) {
  if (ns >= 1e9) return `${(ns / 1e9).toFixed(3)} s`;
  if (ns >= 1e6) return `${(ns / 1e6).toFixed(3)} ms`;
  return ns === 0 ? '0 µs' : `${(ns / 1e3).toFixed(2)} µs`;
}

export const shareText = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)}%` : '0%');
export const countText = count => count.toLocaleString('en-US');
/** A cell that is one bar long, for a share of 0 to 1. */
export const bar = share => h('span', {className: 'bar', style: `--share:${Math.min(1, Math.max(0, share)).toFixed(4)}`, 'aria-hidden': 'true'});
export const color = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Shows an entry of a list that has what was chosen beside it; in a narrow window that stands above. */
export function showEntry(entry) {
  if (!matchMedia('(max-width: 900px)').matches) entry?.scrollIntoView({block: 'center'});
}

/** A steady color for a text. */
export function hueOf(text) {
  let hash = 2166136261;
  for (let i = 0; i < text.length; ++i) hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
  return (hash >>> 0) % 360;
}
