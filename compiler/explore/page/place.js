// Where the reader is: a view and what is chosen in it, all of it in the address behind the #.
import {h} from 'dom';

/** {view, params} of the address. */
export function place() {
  const [view, query = ''] = location.hash.replace(/^#\/?/, '').split('?');
  return {view: view || 'summary', params: Object.fromEntries(new URLSearchParams(query))};
}

/** The address of a place. The number of ranks and the stage stay chosen unless others are. */
export function addressOf(view, params = {}) {
  const {world, stage} = place().params;
  const all = Object.entries({world, stage, ...params}).filter(([, value]) => value !== undefined && value !== '');
  return `#/${view}${all.length ? `?${new URLSearchParams(all)}` : ''}`;
}

export const link = (view, params, ...text) => h('a', {href: addressOf(view, params)}, ...text);
export function go(view, params) { location.hash = addressOf(view, params); }
/** The same view with some of its choices changed; no new entry of the history. */
export function change(params) {
  const here = place();
  history.replaceState(null, '', addressOf(here.view, {...here.params, ...params}));
}

/** "models/x.cpp:41" as a link to it; "no line" where there is none. */
export const lineLink = line => (/:\d+$/.test(line) ? link('model', {line}, line) : line || 'no line');
export const kernelLink = kernel => link('model', {kernel: kernel.name}, kernel.name);
export const bufferLink = (buffer, program) => link('memory', {buffer: buffer.name, program: program?.name}, buffer.name);
