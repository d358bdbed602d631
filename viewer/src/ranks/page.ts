// The page of `vramwise report -o`: all ranks in one table, what they differ in, and one of them in detail.

import './ranks.css';
import { copyText } from '../app/clipboard';
import { exportTable } from '../app/export';
import { applyTheme, nextTheme, onSystemTheme, storedTheme, storeTheme } from '../app/theme';
import { makeToast } from '../app/toast';
import type { RankReport, RanksReport } from '../data/header';
import { fill, h, type Child } from '../look/h';
import { bytes, count } from '../look/units';
import { keepFocus, nothing, swatch, tableHead, type Heading } from '../panels/parts';
import { LIVE, mostOf, rankBar, RESERVED } from './bars';
import { answerOf, bytesOr, firstRank, measureName, nameOf, oomText, ranksText, sitesText, sortRanks, tellingRank, type RankKey, type Sorting } from './rows';

const FEW_SITES = 100;

const HEADINGS: readonly Heading<RankKey>[] = [
  { key: 'rank', title: 'rank', isNumber: true },
  { key: null, title: 'live in reserved', isNumber: false },
  { key: 'live', title: 'live peak', isNumber: true },
  { key: 'reserved', title: 'reserved', isNumber: true },
  { key: 'events', title: 'events', isNumber: true },
  { key: 'steps', title: 'steps', isNumber: true },
  { key: 'growth', title: 'grows a step', isNumber: true },
  { key: 'oom', title: 'ran out', isNumber: false },
  { key: 'verdict', title: 'verdict', isNumber: false },
];

const NOT_TYPED_INTO = ':not(input, textarea, select)';

/** A button that saves a table, all of it. */
function saving(text: () => string, name: string, report: RanksReport, say: (text: string) => void): HTMLElement {
  const save = (): void => exportTable({ name, csv: text() }, report.folder ?? 'job', say);
  return h('button', { type: 'button', class: 'plain', onclick: save }, 'Save as CSV');
}

function list(title: string, lines: readonly Child[][]): HTMLElement | null {
  if (lines.length === 0) return null;
  return h('section', {}, h('h3', {}, title), h('ul', {}, ...lines.map((line) => h('li', {}, ...line))));
}

/** A figure, with a mark where it is out of line. */
function figure(text: string, rank: RankReport, measure: string): HTMLElement {
  const isOut = rank.out_of_line.includes(measure);
  return h('td', { class: isOut ? 'number out' : 'number', title: isOut ? 'out of line with the other ranks' : null }, text, isOut && ' *');
}

// ---- below the table -----------------------------------------------------------------------------

function sites(report: RanksReport, say: (text: string) => void): HTMLElement | null {
  if (report.sites.length === 0) return null;
  const rows = report.sites.slice(0, FEW_SITES).map((site) =>
    h(
      'tr',
      {},
      h('td', { class: 'number' }, site.rank),
      h('td', { class: 'number' }, `${site.bytes < site.median_bytes ? '-' : '+'}${bytes(Math.abs(site.bytes - site.median_bytes))}`),
      h('td', { class: 'number' }, bytes(site.bytes)),
      h('td', { class: 'number' }, bytes(site.median_bytes)),
      h('td', { class: 'where' }, site.where ?? 'no stack', h('small', {}, site.category)),
    ),
  );
  const head = ['rank', 'differs by', 'holds', 'median', 'where'].map((title) => h('th', { scope: 'col', class: title === 'where' ? null : 'number' }, title));
  return h(
    'section',
    { class: 'sites' },
    h('h3', {}, 'Where ranks differ, at their peaks ', saving(() => sitesText(report), 'sites', report, say)),
    h('div', { class: 'wide' }, h('table', {}, h('thead', {}, h('tr', {}, ...head)), h('tbody', {}, ...rows))),
    report.sites.length > FEW_SITES && h('p', { class: 'note' }, `and ${count(report.sites.length - FEW_SITES)} more: vramwise report --json has them all`),
  );
}

function outliers(report: RanksReport): HTMLElement | null {
  const text = (measure: string, value: number): string => (measure === 'events' ? count(value) : bytes(value));
  return list(
    'Out of line',
    report.outliers.map(({ rank, measure, value, median }) => [
      `rank ${rank}: ${measureName(measure)} ${text(measure, value)}, where the median is ${text(measure, median)}`,
    ]),
  );
}

function settings(report: RanksReport): HTMLElement | null {
  return list(
    'Settings that differ',
    report.settings.map(({ key, rank, value, usual }) => [h('code', {}, key), ` is '${value}' on rank ${rank}, and '${usual}' on most`]),
  );
}

function files(report: RanksReport): HTMLElement {
  const told = report.files.filter((file) => file.reason !== null);
  const lines: Child[][] = told.map((file) => [h('code', {}, file.path), `: ${file.reason}`]);
  if (report.missing.length > 0) lines.push([`no files of ${report.missing.length === 1 ? 'rank' : 'ranks'} ${report.missing.join(', ')}`]);
  const all = report.files.length === 1 ? '1 file' : `${count(report.files.length)} files`;
  const title = told.length === 0 ? all : `${all}, ${count(told.length)} of no known rank or not read`;
  if (lines.length + report.notes.length === 0) return h('p', { class: 'files' }, title);
  return h(
    'details',
    { class: 'files' },
    h('summary', {}, title),
    h('ul', {}, ...lines.map((line) => h('li', {}, ...line)), ...report.notes.map((note) => h('li', {}, note))),
  );
}

// ---- the page ------------------------------------------------------------------------------------

export function makeRanks(report: RanksReport, say: (text: string) => void): { readonly element: HTMLElement; step(by: number): void } {
  const first = firstRank(report), all = [...report.ranks, ...report.unassigned], most = mostOf(all);
  let sorted: Sorting = { key: 'rank', isFalling: false };
  let taken = tellingRank(report);
  const table = h('table', { class: 'ranks' }), detail = h('section', { class: 'rank-detail', 'aria-live': 'polite' });

  const take = (rank: RankReport): void => {
    taken = rank;
    draw();
  };
  const row = (rank: RankReport): HTMLElement =>
    h(
      'tr',
      { class: ['pickable', rank === taken && 'taken', rank === first && 'first'].filter(Boolean).join(' '), onclick: () => take(rank) },
      h('td', { class: 'number' }, h('button', { type: 'button', class: 'link', 'aria-pressed': String(rank === taken), title: nameOf(rank) }, rank.rank ?? '?')),
      h('td', { class: 'picture' }, rankBar(rank, most)),
      figure(bytesOr(rank.peak_live_bytes), rank, 'peak_live_bytes'),
      figure(bytesOr(rank.peak_reserved_bytes), rank, 'peak_reserved_bytes'),
      figure(rank.events === null ? '' : count(rank.events), rank, 'events'),
      h('td', { class: 'number' }, rank.steps === null ? '' : count(rank.steps)),
      h('td', { class: 'number' }, rank.growth_bytes_per_step ? bytes(rank.growth_bytes_per_step) : ''),
      h('td', { class: rank.oom === null ? null : 'danger' }, oomText(rank, first)),
      h('td', {}, rank.verdict ?? ''),
    );

  const command = (text: string): HTMLElement => {
    const copy = async (): Promise<void> => say((await copyText(text)) ? 'The command is copied' : 'The command cannot be copied here');
    return h('p', { class: 'command' }, h('code', {}, text), ' ', h('button', { type: 'button', class: 'plain', onclick: () => void copy() }, 'Copy'));
  };
  const drawDetail = (rank: RankReport): void =>
    fill(
      detail,
      h('h3', {}, rank.rank === null ? `A file of no known rank: ${nameOf(rank)}` : `Rank ${rank.rank}`),
      h('p', {}, rank.sentence ?? 'There is nothing of it that the doctor could look at.'),
      rank.doctor !== null && command(rank.doctor),
      rank.view !== null && command(rank.view),
    );

  const sort = (key: RankKey): void => {
    sorted = { key, isFalling: sorted.key === key ? !sorted.isFalling : key !== 'rank' && key !== 'verdict' && key !== 'oom' };
    draw();
  };
  const shown = (): RankReport[] => sortRanks(all, sorted, first);
  const draw = (): void => {
    keepFocus(table, () => fill(table, tableHead(HEADINGS, sorted, sort), h('tbody', {}, ...shown().map(row))));
    if (taken !== null) drawDetail(taken);
  };
  draw();

  const key = (colour: string, title: string): HTMLElement => h('span', { class: 'key' }, swatch(colour, 8, []), title);
  return {
    element: h(
      'main',
      { class: 'report ranks-page' },
      h('h2', { class: report.oom_count > 0 ? 'danger' : null }, answerOf(report)),
      h('p', { class: 'note' }, key(LIVE, 'live peak'), key(RESERVED, 'reserved peak'), '* out of line with the other ranks ', saving(() => ranksText(shown(), first), 'ranks', report, say)),
      h('div', { class: 'wide' }, table),
      all.length === 0 && nothing('No file here is of a rank, or says anything about memory.'),
      detail,
      outliers(report),
      sites(report, say),
      settings(report),
      files(report),
    ),
    step(by) {
      const rows = shown(), place = taken === null ? -1 : rows.indexOf(taken);
      const next = rows[Math.max(0, Math.min(rows.length - 1, place + by))];
      if (next === undefined) return;
      take(next);
      table.querySelector('tr.taken')?.scrollIntoView?.({ block: 'nearest' });
    },
  };
}

export function showRanks(root: HTMLElement, report: RanksReport): void {
  const toast = makeToast();
  const ranks = makeRanks(report, (text) => toast.say(text));
  let theme = storedTheme();
  const button = h('button', { type: 'button', class: 'plain', title: 'System, light or dark colours (t)', onclick: () => changeTheme() }, `Theme: ${theme}`);
  const changeTheme = (): void => {
    theme = nextTheme(theme);
    storeTheme(theme);
    applyTheme(theme);
    button.textContent = `Theme: ${theme}`;
    toast.say(`Colours: ${theme}`);
  };
  onSystemTheme(() => applyTheme(theme));
  window.addEventListener('beforeprint', () => applyTheme('light'));
  window.addEventListener('afterprint', () => applyTheme(theme));
  document.addEventListener('keydown', (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (!(event.target instanceof Element) || !event.target.matches(NOT_TYPED_INTO)) return;
    if (event.key === 't') changeTheme();
    else if (event.key === 'ArrowDown') ranks.step(1);
    else if (event.key === 'ArrowUp') ranks.step(-1);
    else return;
    event.preventDefault();
  });
  const folder = report.folder ?? 'a job';
  document.title = `${folder} - vramwise`;
  fill(
    root,
    h(
      'header',
      { class: 'top' },
      h('span', { class: 'brand' }, 'vramwise'),
      h('span', { class: 'file', title: folder }, folder),
      h('span', { class: 'spring' }),
      h('span', { class: 'muted' }, h('kbd', {}, '↑'), ' ', h('kbd', {}, '↓'), ' another rank  ', h('kbd', {}, 't'), ' colours'),
      h('span', { class: 'actions' }, button),
    ),
    ranks.element,
    toast.element,
  );
  applyTheme(theme);
}
