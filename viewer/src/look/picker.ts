// One of a list, folded up: the browser's own, which works with every keyboard and screen reader.

import { fill, h } from './h';
import type { Choice } from './segmented';

export interface Picker<T extends string> {
  readonly element: HTMLElement;
  set(value: T): void;
  setChoices(choices: readonly Choice<T>[]): void;
}

export function makePicker<T extends string>(label: string, choices: readonly Choice<T>[], picked: (value: T) => void): Picker<T> {
  const select = h('select', { 'aria-label': label, title: label, onchange: () => picked(select.value as T) });
  const setChoices = (now: readonly Choice<T>[]): void =>
    fill(select, ...now.map(({ value, title }) => h('option', { value }, title)));
  setChoices(choices);
  return {
    element: h('span', { class: 'picker' }, select),
    setChoices,
    set(value) {
      select.value = value;
    },
  };
}
