import './look/theme.css';
import './look/page.css';
import { loadModel } from './app/load';
import { showEmpty, showFailure, showLoading } from './app/notice';
import { showShell } from './app/shell';
import { applyTheme, storedTheme } from './app/theme';
import { PANELS } from './panels/index';
import { showRanks } from './ranks/page';

/** Once what is on the page has been painted, `data-state` says so: browser tests wait for it. */
function tellWhenPainted(state: 'ready' | 'empty' | 'failed'): void {
  requestAnimationFrame(() => requestAnimationFrame(() => (document.documentElement.dataset['state'] = state)));
}

async function start(root: HTMLElement): Promise<void> {
  applyTheme(storedTheme());
  try {
    const model = await loadModel(document.getElementById('vramwise-data'), showLoading(root));
    const ranks = model.ranks ?? null;
    const isEmpty = ranks === null && model.runs.every((run) => run.devices.length === 0);
    if (ranks !== null) showRanks(root, ranks);
    else if (isEmpty) showEmpty(root, model.runs.map((run) => run.file));
    else showShell(root, model, PANELS);
    tellWhenPainted(isEmpty ? 'empty' : 'ready');
  } catch (error) {
    console.error(error);
    showFailure(root, error);
    tellWhenPainted('failed');
  }
}

// index.html says that a browser is too old, before and without this script.
const page = document.documentElement;
if (!page.hasAttribute('data-old')) {
  page.setAttribute('data-started', '');
  void start(document.getElementById('app')!);
}
