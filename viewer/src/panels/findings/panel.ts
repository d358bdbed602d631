// Everything the doctor found, in full: what shows it, what it is made of, and what to do, in the order
// in which to try it.

import './findings.css';
import { copyText } from '../../app/clipboard';
import type { App, Panel } from '../../app/panel';
import { findingId, targetOf } from '../../app/places';
import type { State, Tab } from '../../app/state';
import type { DoctorReport, Finding, Remedy } from '../../data/header';
import { findingName } from '../../data/verdicts';
import { categoryColour } from '../../look/palette';
import { fill, h, type Child } from '../../look/h';
import { bytes } from '../../look/units';
import { bar, nothing } from '../parts';
import { basisText, numberRows, savesText } from './words';

const TAB_TEXT: Readonly<Partial<Record<Tab, string>>> = {
  segments: 'show the segments',
  leaks: 'show the growth',
  table: 'show the table',
  timeline: 'show the timeline',
};

export function makeFindings(app: App): Panel {
  const element = h('section', { class: 'report findings' });
  let shown = -1;

  const copy = async (text: string): Promise<void> => app.say((await copyText(text)) ? 'copied' : 'the browser does not let the page copy');

  const remedyItem = (remedy: Remedy): HTMLElement => {
    const saves = savesText(remedy);
    const item = h(
      'li',
      {},
      h('div', {}, remedy.action, saves === null ? null : ': ', saves === null ? null : h('span', { class: 'saves' }, saves)),
      h('div', { class: 'note' }, `${basisText(remedy.basis)}${remedy.cost ? `. Costs: ${remedy.cost}` : ''}`),
    );
    const how = remedy.how;
    if (how) {
      const button = h('button', { type: 'button', class: 'plain', onclick: () => void copy(how) }, 'copy');
      item.append(h('div', { class: 'how' }, h('pre', {}, how), button));
    }
    return item;
  };

  const placesOf = (run: number, finding: Finding): HTMLElement | null => {
    if (finding.where.length === 0) return null;
    const go = (where: string) => (): void => app.store.set(targetOf(app.model, app.store.state, run, finding, where));
    const links = finding.where.map((where) =>
      h('li', {}, h('button', { type: 'button', class: 'link', title: 'highlight it in the pictures', onclick: go(where) }, where)),
    );
    return h('ul', { class: 'places', 'aria-label': 'places' }, ...links);
  };

  const partsOf = (finding: Finding): HTMLElement | null => {
    if (finding.parts.length === 0) return null;
    const most = Math.max(...finding.parts.map((part) => part.bytes), 1);
    const cells = finding.parts.flatMap((part): Child[] => [
      h('span', {}, part.name),
      h('span', { class: 'number' }, bytes(part.bytes)),
      bar(part.bytes / most, categoryColour(part.name)),
    ]);
    return h('div', { class: 'parts' }, ...cells);
  };

  const listOf = (name: string, texts: readonly string[]): HTMLElement | null =>
    texts.length === 0 ? null : h('ul', { 'aria-label': name }, ...texts.map((text) => h('li', {}, text)));

  const article = (run: number, finding: Finding, index: number): HTMLElement => {
    const target = targetOf(app.model, app.store.state, run, finding);
    const tabText = target.tab === undefined ? undefined : TAB_TEXT[target.tab];
    const go = (): void => app.store.set(targetOf(app.model, app.store.state, run, finding));
    return h(
      'article',
      { id: findingId(index), tabindex: -1 },
      h('h3', {}, h('span', { class: 'kind' }, findingName(finding.kind, app.model.runs[run]!.doctor?.verdict ?? '')), finding.title),
      placesOf(run, finding),
      tabText === undefined ? null : h('button', { type: 'button', class: 'plain', onclick: go }, tabText),
      partsOf(finding),
      listOf('evidence', finding.evidence),
      finding.remedies.length === 0 ? null : h('h3', {}, 'What to try, in this order'),
      finding.remedies.length === 0 ? null : h('ol', { class: 'remedies' }, ...finding.remedies.map(remedyItem)),
    );
  };

  const reasoningOf = (doctor: DoctorReport): Child[] => {
    const numbers = numberRows(doctor.numbers);
    return [
      doctor.reasoning.length > 0 && h('h3', {}, 'How the verdict came about'),
      listOf('reasoning', doctor.reasoning),
      numbers.length > 0 && h('h3', {}, doctor.numbers.tried_bytes !== null ? 'Memory at the failure' : 'Memory when most was live'),
      numbers.length > 0 && h('dl', {}, ...numbers.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)])),
    ];
  };

  const warningsOf = (run: number): Child[] => {
    const { stats } = app.model.runs[run]!;
    const reasons = stats.devices
      .filter((device) => device.summary_reason !== null && device.summary_reason !== undefined)
      .map((device) => `device ${device.device}: no memory_summary(): ${device.summary_reason}`);
    const summaries = stats.devices.filter((device) => device.summary);
    return [
      stats.warnings.length + reasons.length > 0 && h('h3', {}, 'What to know about the recording'),
      listOf('warnings', [...stats.warnings, ...reasons]),
      ...summaries.map((device) =>
        h('details', {}, h('summary', {}, `torch.cuda.memory_summary() of device ${device.device}`), h('pre', {}, device.summary)),
      ),
    ];
  };

  const draw = (run: number): void => {
    const { doctor, doctorReason } = app.model.runs[run]!;
    if (doctor === null) {
      fill(element, nothing(`There is no verdict: ${doctorReason ?? 'the doctor was not asked'}.`), ...warningsOf(run));
      return;
    }
    fill(
      element,
      h(
        'div',
        { class: 'main' },
        h('h2', {}, `${doctor.verdict} (confidence: ${doctor.confidence})`),
        h('p', { class: 'sentence' }, doctor.sentence),
        ...doctor.findings.map((finding, index) => article(run, finding, index)),
        doctor.findings.length === 0 && nothing('The doctor found nothing else.'),
      ),
      h('div', { class: 'aside' }, ...reasoningOf(doctor), ...warningsOf(run)),
    );
  };

  return {
    element,
    update(state: State) {
      if (state.run === shown) return;
      shown = state.run;
      draw(state.run);
    },
    picture: () => null,
  };
}
