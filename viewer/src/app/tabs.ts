// The tabs and what is below them. A panel is made when its tab is first shown, and kept.

import { fill, h } from '../look/h';
import type { App, Panel, PanelKind } from './panel';
import type { State, Tab } from './state';

export interface Tabs {
  readonly list: HTMLElement;
  readonly body: HTMLElement;
  update(state: State): void;
  /** The panel that is shown, or null where there is a reason instead. */
  shown(): Panel | null;
}

interface Page {
  readonly kind: PanelKind;
  readonly tab: HTMLButtonElement;
  readonly holder: HTMLElement;
  panel: Panel | null;
}

export function makeTabs(app: App, kinds: readonly PanelKind[]): Tabs {
  const pages: Page[] = kinds.map((kind, i) => ({
    kind,
    tab: h(
      'button',
      {
        type: 'button',
        role: 'tab',
        id: `tab-${kind.tab}`,
        'aria-controls': `panel-${kind.tab}`,
        title: `${kind.title} (${i + 1})`,
        'data-title': kind.title,
        onclick: () => app.store.set({ tab: kind.tab }),
      },
      kind.title,
    ),
    holder: h('div', { role: 'tabpanel', id: `panel-${kind.tab}`, class: 'panel', 'aria-labelledby': `tab-${kind.tab}`, tabindex: -1, hidden: true }),
    panel: null,
  }));
  const list = h('div', { role: 'tablist', class: 'tabs', 'aria-label': 'Views' }, ...pages.map((page) => page.tab));
  const body = h('main', { class: 'panels' }, ...pages.map((page) => page.holder));
  let visible: Panel | null = null, selected: Tab | null = null;

  list.addEventListener('keydown', (event) => {
    const now = pages.findIndex((page) => page.tab === document.activeElement);
    const last = pages.length - 1;
    const next = { ArrowRight: now === last ? 0 : now + 1, ArrowLeft: now <= 0 ? last : now - 1, Home: 0, End: last }[event.key];
    if (now < 0 || next === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    pages[next]!.tab.focus();
    app.store.set({ tab: pages[next]!.kind.tab });
  });

  const reasonFor = (page: Page): string | null => {
    if (app.run().devices.length === 0) return `${app.run().file} has no device in it.`;
    return page.kind.missing(app);
  };

  const show = (page: Page, state: State): void => {
    const reason = reasonFor(page);
    if (reason !== null) {
      visible = null;
      fill(page.holder, h('p', { class: 'reason' }, reason));
      return;
    }
    try {
      page.panel ??= page.kind.make(app);
      if (page.panel.element.parentNode !== page.holder) fill(page.holder, page.panel.element);
      visible = page.panel;
      page.panel.update(state);
    } catch (error) {
      visible = null;
      console.error(error);
      const words = error instanceof Error ? error.message : String(error);
      fill(page.holder, h('p', { class: 'reason' }, `${page.kind.title} could not be drawn: ${words}`));
    }
  };

  /** What is missing is that of a device: asked when it changes, not when the pointer moves. */
  const markLacking = (): void => {
    for (const page of pages) page.tab.classList.toggle('lacking', reasonFor(page) !== null);
  };
  let marked = '';

  return {
    list,
    body,
    shown: () => visible,
    update(state) {
      if (marked !== `${state.run} ${state.device}`) markLacking();
      marked = `${state.run} ${state.device}`;
      for (const page of pages) {
        const isShown = page.kind.tab === state.tab;
        page.tab.setAttribute('aria-selected', String(isShown));
        page.tab.tabIndex = isShown ? 0 : -1;
        page.holder.hidden = !isShown;
        if (isShown) show(page, state);
        if (isShown && selected !== state.tab) page.tab.scrollIntoView?.({ block: 'nearest', inline: 'nearest' }); // the row of tabs may be wider than the window
      }
      selected = state.tab;
    },
  };
}

/** The tab that a digit key stands for. */
export function tabOfKey(kinds: readonly PanelKind[], key: string): Tab | null {
  return /^[1-9]$/.test(key) ? (kinds[Number(key) - 1]?.tab ?? null) : null;
}
