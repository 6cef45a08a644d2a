// A program's memory: addresses over its commands, each buffer a rectangle.
import {memoryOf} from 'data';
import {bytesText, color, h, hueOf, shareText, table, timeText} from 'dom';
import {change, go, lineLink, link} from 'place';
import {Chart} from 'chart';

const commandText = (variant, program, index) => {
  const command = program.commands[index];
  return command ? `${program.name}[${index}] ${command.worker}${command.line ? ` (${command.line})` : ''}` : '';
};

function bufferPanel(variant, program, buffer) {
  const uses = program.commands.filter(command => command.reads.includes(buffer.index) || command.writes.includes(buffer.index));
  const sharing = variant.buffers.filter(other => other !== buffer && other.at < buffer.at + buffer.bytes && buffer.at < other.at + other.bytes);
  return [h('h2', {}, `Buffer ${buffer.name}`),
    h('p', {id: 'buffer'}, `${buffer.type}, ${bytesText(buffer.bytes)} ${buffer.isInHost ? 'in the host\'s memory' : `at ${buffer.at} of an arena of ${bytesText(variant.arena)}`}. From `, lineLink(buffer.line), '.'),
    h('p', {}, buffer.role ? `${buffer.role}: its bytes are its own for the whole run.` : 'Its bytes are others\' at other times.'),
    table(`Who uses it in ${program.name}`, ['command', '', 'kernel or call', 'line'], uses.map(command => [
      link('schedule', {program: program.name, command: command.index}, `${program.name}[${command.index}]`),
      [command.reads.includes(buffer.index) ? 'reads' : '', command.writes.includes(buffer.index) ? 'writes' : ''].filter(Boolean).join(' and '),
      command.worker, lineLink(command.line)]), {most: 40, id: 'uses'}),
    table('At other times its bytes belong to', ['buffer', 'bytes', 'at'], sharing.sort((a, b) => b.bytes - a.bytes).map(other => [
      link('memory', {program: program.name, buffer: other.name}, other.name), bytesText(other.bytes), String(other.at)]), {most: 20, id: 'sharing'})];
}

/** What the backward pass would make again next to hold less, as the compilation has told: [op and count, bytes, time, line]. */
function nextChoices(doc, stage) {
  const passes = doc.passes.passes.filter(pass => pass.pass === 'nano-recompute' && (!pass.runStage || pass.runStage === stage.name));
  const remarks = new Set(passes.flatMap(pass => pass.remarks));
  return [...remarks].flatMap(remark => {
    const [, line = '', what, megabytes, milliseconds] =
      /^(?:(.*?:\d+): )?remark: would be made again next, to hold less: (.*), ([\d.]+) MB, in ([\d.]+) ms of a micro-batch$/.exec(remark) ?? [];
    return what ? [[what, bytesText(1e6 * Number(megabytes)), timeText(1e6 * Number(milliseconds)), lineLink(line)]] : [];
  });
}

/** Of a program of a micro-batch: what would change its peak. */
function nextView(doc, stage, program) {
  if (!/^(first|next|last)(\.|$)/.test(program.name)) return null;
  if (!doc.passes) return h('p', {className: 'missing', id: 'next'}, 'What the compiler would do next to hold less is in the page that nanoc compile --explore writes.');
  const rows = nextChoices(doc, stage);
  return h('div', {id: 'next'}, rows.length
    ? table('What --max-memory would do next: values that the backward pass would make again, in this order', ['values', 'held less', 'a micro-batch takes longer by', 'line'], rows)
    : h('p', {}, 'Nothing that a micro-batch holds from its forward to its backward pass can be made again to hold less.'));
}

export function showMemory(element, {doc, variant, stage, params}) {
  const buffer = variant.buffers.find(each => each.name === params.buffer);
  const touches = program => program.commands.some(command => command.reads.includes(buffer.index) || command.writes.includes(buffer.index));
  const program = variant.programs.find(each => each.name === params.program) ??
    (buffer && variant.programs.find(touches)) ?? variant.programs[stage.runs[0][0]];
  const memory = memoryOf(variant, program);
  const lives = [...memory.own, ...memory.kept.map(each => ({buffer: each, begin: 0, end: program.commands.length - 1}))];
  const count = Math.max(1, program.commands.length);

  const choose = h('select', {id: 'program', onchange: event => go('memory', {program: event.target.value})},
    variant.programs.map(each => h('option', {value: each.name, selected: each === program}, each.name)));
  const zoom = h('button', {type: 'button'}, 'All'), own = h('button', {type: 'button'}, 'Without what lives for the whole run');
  const hover = h('p', {className: 'quiet', id: 'hover', 'aria-live': 'polite'}, 'Point at a rectangle; arrow keys move, + and − change the scale.');
  const canvas = h('canvas', {tabindex: 0, role: 'img', style: 'height: 460px', id: 'memory',
    'aria-label': `Addresses over the commands of ${program.name}; the tables below say the same`});
  const peak = h('p', {id: 'peak'}, h('strong', {}, bytesText(memory.most)), ` at `,
    link('schedule', {program: program.name, command: memory.moment}, commandText(variant, program, memory.moment)),
    `, beside ${bytesText(memory.keptBytes)} that live for the whole run; the arena has ${bytesText(variant.arena)} a rank.`);
  element.append(h('div', {className: 'tools'}, h('label', {}, 'Program ', choose), zoom, own), peak, canvas, hover);

  const low = Math.min(variant.arena, ...memory.own.map(life => life.buffer.at)), high = Math.max(1, ...memory.own.map(life => life.buffer.at + life.buffer.bytes));
  const ranges = {all: {x: [0, count], y: [0, variant.arena]}, own: {x: [0, count], y: memory.own.length ? [low, high] : [0, variant.arena]}};
  const chart = new Chart(canvas, {
    ...ranges.own,
    xLabel: x => String(Math.round(x)), yLabel: bytesText,
    draw: (context, {x, y}) => {
      for (const {buffer: each, begin, end} of lives) {
        const left = x(begin), top = y(each.at + each.bytes), width = Math.max(1, x(end + 1) - left), height = Math.max(0.5, y(each.at) - top);
        if (left > canvas.clientWidth || left + width < 0 || top > canvas.clientHeight || top + height < 0) continue;
        context.fillStyle = each.role ? color('--line') : `hsl(${hueOf(each.line || each.name)} ${color('--saturation')} ${color('--lightness')})`;
        context.fillRect(left, top, width, height);
        if (height > 2 && width > 2) {
          context.strokeStyle = color('--back');
          context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
        }
        if (each === buffer) {
          context.strokeStyle = color('--text');
          context.lineWidth = 2;
          context.strokeRect(left, top, width, height);
          context.lineWidth = 1;
        }
        if (height > 13 && width > 60) {
          context.fillStyle = color('--text');
          context.fillText(each.name.slice(0, Math.floor(width / 7)), left + 3, top + 11);
        }
      }
      context.strokeStyle = color('--warn');
      context.setLineDash([5, 4]);
      context.beginPath();
      context.moveTo(x(memory.moment + 0.5), 0);
      context.lineTo(x(memory.moment + 0.5), canvas.clientHeight);
      context.stroke();
      context.setLineDash([]);
    },
    find: (x, y) => lives.find(({buffer: each, begin, end}) => begin <= x && x < end + 1 && each.at <= y && y < each.at + each.bytes),
    hover: life => {
      hover.textContent = life ? `${life.buffer.name}, ${life.buffer.type}, ${bytesText(life.buffer.bytes)} at ${life.buffer.at}, ${life.buffer.line || 'no line'}, ` +
        (life.buffer.role ? `${life.buffer.role}, for the whole run` : `commands ${life.begin} to ${life.end}`) : '';
    },
    choose: life => go('memory', {program: program.name, buffer: life.buffer.name}),
  });
  zoom.onclick = () => chart.show(ranges.all);
  own.onclick = () => chart.show(ranges.own);
  change({program: program.name});

  const holders = h('div', {}, table(`What holds memory at the peak of ${program.name}`, ['buffer', 'type', 'bytes', 'of all', 'line', 'commands'],
    memory.holders.map(({buffer: each, begin, end}) => [link('memory', {program: program.name, buffer: each.name}, each.name), each.type,
      bytesText(each.bytes), shareText(each.bytes, memory.most), lineLink(each.line), `${begin}–${end}`]), {most: 25, id: 'holders'}));
  const kept = table('What lives for the whole run', ['buffer', '', 'type', 'bytes', 'line'], [...memory.kept].sort((a, b) => b.bytes - a.bytes)
    .map(each => [link('memory', {program: program.name, buffer: each.name}, each.name), each.role, each.type, bytesText(each.bytes), lineLink(each.line)]), {most: 15, id: 'kept'});
  element.append(...[h('section', {id: 'panel', 'aria-label': 'Buffer'}, buffer ? bufferPanel(variant, program, buffer) : []), holders,
    nextView(doc, stage, program), kept].filter(Boolean));
  return () => chart.stop();
}
