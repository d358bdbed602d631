// Light, dark, or what the system says. The choice is kept by the browser where it may be.

import type { Theme } from './state';

const KEY = 'vramwise.theme';
export const THEMES: readonly Theme[] = ['system', 'light', 'dark'];

export function storedTheme(): Theme {
  try {
    const stored = window.localStorage.getItem(KEY);
    return THEMES.find((theme) => theme === stored) ?? 'system';
  } catch {
    return 'system'; // a page from a file, or storage is switched off
  }
}

export function storeTheme(theme: Theme): void {
  try {
    window.localStorage.setItem(KEY, theme);
  } catch {
    // It holds until the page is closed.
  }
}

const systemIsDark = (): MediaQueryList | null =>
  typeof window.matchMedia === 'function' ? window.matchMedia('(prefers-color-scheme: dark)') : null;

/** Puts it on the page; true: the colours changed. */
export function applyTheme(theme: Theme): boolean {
  const shown = theme === 'system' ? (systemIsDark()?.matches ? 'dark' : 'light') : theme;
  const root = document.documentElement;
  if (root.dataset['theme'] === shown) return false;
  root.dataset['theme'] = shown;
  return true;
}

export function onSystemTheme(changed: () => void): void {
  systemIsDark()?.addEventListener('change', changed);
}

export function nextTheme(theme: Theme): Theme {
  return THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length]!;
}
