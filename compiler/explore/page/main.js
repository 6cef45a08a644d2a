// Opens the document, and shows the view that the address names.
import {readDocument} from 'data';
import {h} from 'dom';
import {addressOf, go, place} from 'place';
import {showComparison} from 'compare';
import {showFailure} from 'failure';
import {showGraph} from 'graph';
import {showMemory} from 'memory';
import {showModel} from 'model';
import {showPipeline} from 'pipeline';
import {showRuns} from 'run';
import {showSchedule} from 'schedule';
import {showSummary} from 'summary';

const views = [
  ['summary', 'Summary', showSummary],
  ['pipeline', 'Pipeline', showPipeline],
  ['model', 'Model', showModel],
  ['graph', 'Graph', showGraph],
  ['memory', 'Memory', showMemory],
  ['schedule', 'Schedule', showSchedule],
  ['run', 'Runs', showRuns],
  ['compare', 'Comparison', showComparison],
];

/** Of a compilation that made no plan. */
const failureViews = [['summary', 'Failure', showFailure], ...views.filter(([name]) => name === 'pipeline' || name === 'model')];

function menu(name, label, choices, chosen) {
  return h('label', {}, `${label} `, h('select', {name, onchange: event => {
    const here = place();
    go(here.view, {...here.params, [name]: event.target.value});
  }}, choices.map(([value, text]) => h('option', {value, selected: String(value) === String(chosen)}, text))));
}

/** Of the element that has the focus what finds it again in a view that is made anew. */
function focused() {
  const {id, hash} = document.activeElement ?? {};
  return each => (id ? each.id === id : hash && each.hash === hash);
}

let clean = () => {}; // what the last view wants done when it goes

function show(doc) {
  const asked = location.hash || '#'; // a view may make it say more
  const isFocused = focused();
  const {view, params} = place();
  const own = doc.failure ? failureViews : views;
  const known = own.find(([name]) => name === view) ?? own[0];
  const variant = doc.variantOf(Number(params.world)), stage = variant.stages[Number(params.stage) || 0] ?? variant.stages[0];
  document.getElementById('views').replaceChildren(...own
    .filter(([name]) => name !== 'compare' || doc.comparison)
    .map(([name, text]) => h('a', {href: addressOf(name), 'aria-current': name === known[0] ? 'page' : null}, text)));
  const menus = [menu('world', 'Ranks', doc.variants.map(each => [each.world, String(each.world)]), variant.world)];
  if (variant.stages.length > 1)
    menus.push(menu('stage', 'Stage', variant.stages.map((each, i) => [i, each.name]), variant.stages.indexOf(stage)));
  document.getElementById('menus').replaceChildren(...menus);
  const element = document.getElementById('view');
  clean();
  element.replaceChildren();
  element.dataset.view = known[0];
  clean = known[2](element, {doc, variant, stage, params}) ?? (() => {});
  [...document.querySelectorAll('a, canvas, select, input, button')].find(isFocused)?.focus({preventScroll: true}); // for who goes on by keyboard
  document.documentElement.dataset.asked = asked; // tests wait for it
}

try {
  const doc = await readDocument();
  window.addEventListener('hashchange', () => show(doc));
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => show(doc));
  show(doc);
} catch (error) {
  document.getElementById('view').replaceChildren(h('p', {role: 'alert'}, `This page cannot be shown: ${error.message}`));
  throw error;
}
