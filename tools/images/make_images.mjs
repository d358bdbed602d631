// make_images.mjs [NAME...] - takes the pictures of docs/images anew, or those of them that are named, with
// build/ (another: VRAMWISE_BUILD). Needs what `make viewer-test` needs, tmux for top, and nbconvert for
// notebook. timeline needs VRAMWISE_CORPUS, the folder with the recordings of the benchmarks; without it that
// picture is left as it is.
//
// Run it after a change of what is shown, and look at every picture.

import { execFileSync, spawn } from 'node:child_process';
import { copyFileSync, mkdtempSync, mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { BROWSER_ARGUMENTS, findChromium } from '../../tests/viewer/support/chromium.mjs';
import { BUILD, CORPUS, PROGRAM, recording, ROOT } from '../../tests/viewer/support/places.mjs';
import { withPalette } from './png_palette.mjs';
import { terminalPage } from './terminal.mjs';

const { chromium } = createRequire(join(ROOT, 'viewer/package.json'))('playwright-core');
const GIB = 2 ** 30;
const here = mkdtempSync(join(tmpdir(), 'vramwise-images-'));
const browser = await chromium.launch({ executablePath: findChromium(), args: BROWSER_ARGUMENTS });

async function keep(name, png) {
  const path = join(ROOT, 'docs/images', `${name}.png`);
  writeFileSync(path, withPalette(png));
  console.log(`${name}: ${Math.round(statSync(path).size / 1024)} KiB`);
}

async function opened(address, options) {
  const context = await browser.newContext({ locale: 'en-GB', colorScheme: 'light', ...options });
  const page = await context.newPage();
  await page.goto(address);
  return page;
}

// ---- the page -------------------------------------------------------------------------------------------

/** Until what was asked for has been drawn: panels draw in the next frame. */
const drawn = (page) => page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));

/** The page of a recording under a name that people would give it, with a tab of it shown. */
async function viewed(file, name, tab, options) {
  const copy = join(here, name);
  writeFileSync(copy, execFileSync('xz', ['-dkc', file], { maxBuffer: 2 ** 30 }));
  execFileSync(PROGRAM, ['view', copy, '-o', `${copy}.html`]);
  const page = await opened(pathToFileURL(`${copy}.html`).href, options);
  await page.locator('html[data-state="ready"]').waitFor({ state: 'attached' });
  if (tab !== null) await page.getByRole('tab', { name: tab, exact: true }).click();
  await drawn(page);
  return page;
}

async function timeline() {
  if (CORPUS === null) return console.log('view-timeline: left as it is, without VRAMWISE_CORPUS');
  const page = await viewed(join(CORPUS, 'gpt2_varlen.native.pickle.xz'), 'run.pickle', 'Timeline', { viewport: { width: 1280, height: 760 } });
  await page.locator('input[value=category]').first().check();
  await drawn(page);
  await keep('view-timeline', await page.screenshot({ animations: 'disabled' }));
}

async function segments() {
  const page = await viewed(recording('oom_fragmented.native'), 'crash.pickle', 'Segments', { viewport: { width: 1280, height: 700 }, colorScheme: 'dark' });
  await page.getByRole('button', { name: 'Failure', exact: true }).click();
  await drawn(page);
  await keep('view-segments', await page.screenshot({ animations: 'disabled' }));
}

async function phone() {
  const phoneSized = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true, deviceScaleFactor: 1.5 };
  const page = await viewed(recording('leak_loss.expand'), 'run.pickle', null, phoneSized);
  const first = await page.screenshot({ animations: 'disabled' });
  await page.getByRole('tab', { name: 'Timeline', exact: true }).click();
  await drawn(page);
  const second = await page.screenshot({ animations: 'disabled' });
  const sheet = await opened('about:blank', { viewport: { width: 800, height: 844 }, deviceScaleFactor: 1.5 });
  await sheet.setContent(`<body style="margin:0;display:flex;gap:20px;background:#fff">${[first, second].map((png) =>
    `<img width="390" src="data:image/png;base64,${png.toString('base64')}">`).join('')}`);
  await keep('view-phone', await sheet.screenshot());
}

// ---- a terminal -----------------------------------------------------------------------------------------

async function keepTerminal(name, text) {
  const page = await opened('about:blank', { viewport: { width: 900, height: 700 } });
  await page.setContent(terminalPage(text));
  await keep(name, await page.locator('pre').screenshot());
}

/** Standard output, as a terminal of 80 columns gets it. 1 is no failure: something was found. */
function said(words, environment) {
  try {
    return execFileSync(PROGRAM, words, { env: environment, cwd: here, encoding: 'utf8' });
  } catch (error) {
    if (error.status !== 1) throw error;
    return error.stdout;
  }
}

async function doctor() {
  copyFileSync(recording('oom_fragmented.native'), join(here, 'crash.pickle.xz'));
  const environment = { ...process.env, LC_ALL: 'C.UTF-8', COLUMNS: '80' };
  delete environment.NO_COLOR;
  await keepTerminal('doctor', `$ vramwise doctor crash.pickle.xz\n${said(['doctor', 'crash.pickle.xz', '--color', 'always'], environment)}`);
}

/** A job of tests/support, with what it says on its page. */
async function job(environment, words) {
  const started = spawn(join(BUILD, 'tests/live_job'), words, { env: environment, stdio: ['pipe', 'pipe', 'inherit'] });
  await new Promise((resolve) => started.stdout.once('data', resolve));
  return started;
}

/** The screen of a terminal of 80 columns and 24 lines once `text` is on it, with its colours. */
async function screenOf(command, environment, text) {
  const socket = join(here, 'tmux');
  const tmux = (...words) => execFileSync('tmux', ['-f', '/dev/null', '-S', socket, ...words], { env: environment, encoding: 'utf8' });
  tmux('new-session', '-d', '-x', '80', '-y', '24', ...command);
  try {
    for (let tries = 0; !tmux('capture-pane', '-p').includes(text); tries++) {
      if (tries === 300) throw new Error(`waited for ${text}, and there was:\n${tmux('capture-pane', '-p')}`);
      await pause(100);
    }
    return tmux('capture-pane', '-e', '-p');
  } finally {
    tmux('kill-server');
  }
}

async function top() {
  const pages = join(here, 'pages');
  mkdirSync(pages);
  const environment = { ...process.env, LC_ALL: 'C.UTF-8', TERM: 'tmux-256color', VRAMWISE_LIVE_DIR: pages, VRAMWISE_AMD_SMI: '/nowhere/libamd_smi.so' };
  const gpu = (index) => `device=${index}:NVIDIA H200`;
  const size = (name, gib) => `${name}=${Math.round(gib * GIB)}`;
  const step = ['step_nanoseconds=4120000000', 'input_wait_nanoseconds=90000000'];
  const jobs = [];
  for (const [index, live] of [[0, 61.3], [1, 61.2]]) {
    jobs.push(await job(environment, ['program=train.py', 'job=48211', `rank=${index}`, 'world_size=2', gpu(index), size('live_bytes', live),
      size('reserved_bytes', 66), size('device_free_bytes', 7), `steps=400:${62 * GIB}:0`, ...step]));
  }
  jobs.push(await job(environment, ['program=finetune.py', gpu(2), size('live_bytes', 9), size('reserved_bytes', 10), size('device_free_bytes', 68),
    `steps=300:${6 * GIB}:${10 * 2 ** 20}`, ...step]));
  jobs.push(await job(environment, ['program=eval.py', gpu(3), size('live_bytes', 1.5), size('reserved_bytes', 5), size('device_free_bytes', 74), 'steps=20', ...step]));
  const held = [66.5, 66.5, 10.5, 5.5].map((gib, index) => `${index}:${jobs[index].pid}:${Math.round(gib * GIB)}`);
  Object.assign(environment, { VRAMWISE_NVML: join(BUILD, 'tests/fake_cuda.so'), FAKE_CUDA_DEVICE_COUNT: '4', FAKE_NVML_NAME: 'NVIDIA H200',
    FAKE_NVML_TOTAL: String(80 * GIB), FAKE_NVML_LIST: held.join() });
  try {
    await keepTerminal('top', await screenOf([PROGRAM, 'top', '--interval', '0.2'], environment, 'leak'));
  } finally {
    for (const each of jobs) each.stdin.end();
  }
}

// ---- a notebook -----------------------------------------------------------------------------------------

async function notebook() {
  const environment = { ...process.env, PYTHONPATH: join(ROOT, 'python'), VRAMWISE_LIBRARY_DIR: BUILD, PYTHONDONTWRITEBYTECODE: '1' };
  execFileSync('jupyter', ['nbconvert', '--to', 'html', '--execute', '--output-dir', here, join(ROOT, 'docs/guides/notebook.ipynb')],
    { env: environment, stdio: ['ignore', 'ignore', 'inherit'] });
  const page = await opened(pathToFileURL(join(here, 'notebook.html')).href, { viewport: { width: 900, height: 1000 } });
  await keep('notebook', await page.screenshot({ fullPage: true }));
}

// ---- all of them ----------------------------------------------------------------------------------------

const makers = { timeline, segments, phone, doctor, top, notebook };
const asked = process.argv.slice(2);
const unknown = asked.filter((name) => !(name in makers));
try {
  if (unknown.length > 0) throw new Error(`expected names of ${Object.keys(makers).join(', ')}, found ${unknown.join(', ')}`);
  for (const name of asked.length > 0 ? asked : Object.keys(makers)) await makers[name]();
} finally {
  await browser.close();
  rmSync(here, { recursive: true, force: true });
}
