// What stands in place of everything: while loading, when that failed, and when there is nothing to show.

import { fill, h } from '../look/h';
import type { Progress } from './load';

export function showLoading(root: HTMLElement): Progress {
  const words = h('p', {}, 'Reading the recording');
  const bar = h('progress', { max: 1, 'aria-label': 'Loading' });
  fill(root, h('div', { class: 'notice', role: 'status' }, h('h1', {}, 'vramwise'), words, bar));
  return (what, share) => {
    words.textContent = what;
    if (share === null) bar.removeAttribute('value');
    else bar.value = share;
  };
}

export function showNotice(root: HTMLElement, title: string, ...lines: string[]): void {
  fill(root, h('div', { class: 'notice', role: 'alert' }, h('h1', {}, title), ...lines.map((line) => h('p', {}, line))));
}

export function showFailure(root: HTMLElement, error: unknown): void {
  const words = error instanceof Error ? error.message : String(error);
  showNotice(
    root,
    'The recording cannot be shown',
    `What went wrong: ${words}.`,
    'A page that `vramwise view` wrote was expected, complete and unchanged. If it was downloaded or sent, its end may be missing: fetch it again, or write it anew from the recording.',
  );
}

export function showEmpty(root: HTMLElement, files: readonly string[]): void {
  showNotice(
    root,
    'There is nothing in this recording',
    `${files.join(' and ')} could be read, but no device has used any memory in it.`,
    'The recording may have been started after the program was done with the device, or stopped before it began.',
  );
}
