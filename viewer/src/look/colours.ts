// The theme's colours for what is drawn on a canvas or exported, where CSS variables do not reach.

const NAMES = ['ground', 'surface', 'raised', 'line', 'text', 'muted', 'accent', 'danger', 'warn', 'good', 'pinned'] as const;

export type ThemeColours = Readonly<Record<(typeof NAMES)[number], string>>;

let made: { theme: string | undefined; colours: ThemeColours } | null = null;

/** As they are now. The shell calls Panel.update() when the theme changes. */
export function themeColours(): ThemeColours {
  const root = document.documentElement, theme = root.dataset['theme'];
  if (made === null || made.theme !== theme) {
    const style = getComputedStyle(root);
    const colours = Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--${name}`).trim() || '#888888']));
    made = { theme, colours: colours as ThemeColours };
  }
  return made.colours;
}

/** Of the theme's two families, as a canvas wants them: canvasFont('mono', 12). */
export function canvasFont(family: 'font' | 'mono', size: number, weight = 'normal'): string {
  const families = {
    font: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif",
    mono: "ui-monospace, 'SF Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace",
  };
  return `${weight} ${size}px ${families[family]}`;
}
