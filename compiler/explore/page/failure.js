// A compilation that made no plan: the error, its line, and the pass that reported it.
import {h} from 'dom';
import {lineLink, link} from 'place';

/** The pass that failed, with its number among those of its number of ranks and stage of the run. */
export function failedPass(doc, isOf) {
  const pass = doc.passes.passes.find(each => each.failed);
  return pass ? {pass, index: doc.passes.passes.filter(each => isOf(each, pass)).indexOf(pass)} : null;
}

export function showFailure(element, {doc}) {
  const {message, line} = doc.failure;
  const isOf = (each, pass) => (each.world === 0 || each.world === pass.world) && (!each.runStage || each.runStage === pass.runStage);
  const failed = failedPass(doc, isOf);
  element.append(h('p', {}, `${doc.model} for ${doc.target} was not compiled: there is no plan.`),
    h('p', {className: 'error', id: 'failure', role: 'alert'}, line ? [lineLink(line), ': '] : '', message));
  if (failed) {
    const {pass, index} = failed, world = pass.world || undefined;
    const stages = doc.variants[0].stages.map(each => each.name), stage = stages.indexOf(pass.runStage);
    element.append(h('p', {id: 'where'}, 'It was reported by ', link('pipeline', {pass: index, world, stage: stage > 0 ? stage : undefined}, pass.pass),
      ` in the stage ${pass.stage}${pass.runStage ? `, of stage ${pass.runStage} of the run` : ''}${world ? `, for ${world} rank${world === 1 ? '' : 's'}` : ''}. `,
      'The pipeline shows what it and the passes before it did; the model shows what its lines had become.'));
  } else element.append(h('p', {id: 'where'}, doc.passes.passes.length ? 'It came behind the passes, where kernels become code and the plan is written.' : 'It came while the model file was compiled and run, before any pass.'));
}
