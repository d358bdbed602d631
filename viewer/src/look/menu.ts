// A button that opens a short list of things to do.

import { h } from './h';

export interface MenuItem {
  readonly title: string;
  readonly key?: string; // that does the same
  run(): void;
}

export interface Menu {
  readonly element: HTMLElement;
  close(): void;
}

export function makeMenu(title: string, items: readonly MenuItem[]): Menu {
  const entries = items.map((item) =>
    h('button', { type: 'button', role: 'menuitem', tabindex: -1, onclick: () => (close(true), item.run()) }, h('span', {}, item.title), item.key && h('kbd', {}, item.key)),
  );
  const list = h('div', { class: 'menu-list', role: 'menu', 'aria-label': title, hidden: true }, ...entries);
  const button = h('button', { type: 'button', class: 'plain', 'aria-haspopup': 'menu', 'aria-expanded': 'false', onclick: () => (list.hidden ? open() : close(true)) }, title);
  const element = h('div', { class: 'menu' }, button, list);

  const outside = (event: Event): void => {
    if (!element.contains(event.target as Node)) close(false);
  };
  function open(): void {
    list.hidden = false;
    button.setAttribute('aria-expanded', 'true');
    entries[0]?.focus();
    document.addEventListener('pointerdown', outside);
  }
  function close(isBack: boolean): void {
    if (list.hidden) return;
    list.hidden = true;
    button.setAttribute('aria-expanded', 'false');
    document.removeEventListener('pointerdown', outside);
    if (isBack) button.focus();
  }
  list.addEventListener('keydown', (event) => {
    const now = entries.findIndex((entry) => entry === document.activeElement), count = entries.length;
    const next = { ArrowDown: (now + 1) % count, ArrowUp: (now + count - 1) % count, Home: 0, End: count - 1 }[event.key];
    if (next !== undefined) entries[next]!.focus();
    else if (event.key === 'Escape') close(true);
    else if (event.key === 'Tab') return close(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  return { element, close: () => close(false) };
}
