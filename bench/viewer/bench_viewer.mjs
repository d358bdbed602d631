// bench_viewer.mjs BUILD_FOLDER [RESULT.md] - what the page of a large recording costs: writing it,
// its size, the time to its first picture, frames while it moves, and memory. `make bench-viewer`
// runs it, and puts what it prints into bench/results/viewer.md.
//
// generate_kv.native of VRAMWISE_CORPUS (662,000 events) as a page, and the same repeated to ten
// million events (or VRAMWISE_BENCH_EVENTS), served. Without a corpus a recording of tests/data takes its place.

import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { chromium } from '../../viewer/node_modules/playwright-core/index.mjs';
import { BROWSER_ARGUMENTS, findChromium } from '../../tests/viewer/support/chromium.mjs';
import { describeMachine } from './machine.mjs';
import { SECONDS, whilePanning, whileZooming, zoomIn } from './frames.mjs';
import { chooseRecording, count, heapOf, median, mib, ROOT, seconds, statsOf, table, VIEWPORT } from './measure.mjs';

const build = resolve(process.argv[2] ?? join(ROOT, 'build'));
const program = join(build, 'vramwise');
const scratch = join(build, 'bench-viewer');
const MANY_EVENTS = Number(process.env.VRAMWISE_BENCH_EVENTS ?? 10_000_000);
const TURNS = 5;

function timed(...words) {
  const begin = performance.now();
  execFileSync(program, words, { stdio: ['ignore', 'ignore', 'inherit'], maxBuffer: 1 << 28 });
  return performance.now() - begin;
}

/** Opens an address, and waits for the first picture: the frame after the page says that it is ready. */
async function open(browser, address) {
  const context = await browser.newContext({ viewport: VIEWPORT });
  const page = await context.newPage();
  await page.addInitScript(() => {
    const look = () => {
      if (document.documentElement?.dataset['state'] !== 'ready') return void requestAnimationFrame(look);
      requestAnimationFrame(() => (window.benchReady = performance.now()));
    };
    requestAnimationFrame(look);
  });
  await page.goto(`${address}#tab=timeline`, { waitUntil: 'commit' });
  const handle = await page.waitForFunction(() => window.benchReady, null, { timeout: 300_000 });
  return { context, page, firstPicture: await handle.jsonValue() };
}

/** The rows of a page that is shown: frames of the whole run and of a small part of it, and memory. */
async function measurePage({ context, page }) {
  const rows = [];
  const row = (what, { median: usual, slowest, pictures }) =>
    rows.push([what, `${usual.toFixed(0)} a second; slowest twentieth ${slowest.toFixed(0)}; ${pictures.toFixed(0)} pictures a second`]);
  row('frames, zooming in and out of the whole run', await whileZooming(page, 60));
  await page.keyboard.press('0');
  await zoomIn(page, 3);
  row('frames, dragging half of the run', await whilePanning(page));
  await zoomIn(page, 20);
  row('frames, zooming a small part', await whileZooming(page, 20));
  row('frames, dragging a small part', await whilePanning(page));
  const heap = await heapOf(context, page);
  rows.push(['memory of the page after that', `${mib(heap.objects)} of objects, ${mib(heap.arrays)} of arrays`]);
  return rows;
}

async function benchPage(browser, { name, path }) {
  const target = join(scratch, 'page.html');
  const writing = Array.from({ length: TURNS }, () => timed('view', path, '-o', target));
  const first = [];
  let shown = null;
  for (let turn = 0; turn < TURNS; turn++) {
    await shown?.context.close();
    shown = await open(browser, pathToFileURL(target).href);
    first.push(shown.firstPicture);
  }
  const stats = statsOf(program, path);
  const rows = [
    ['recording', `${name}, ${count(stats.events)} events, ${count(stats.allocs)} blocks, ${mib(statSync(path).size)}`],
    ['`vramwise view`', seconds(median(writing))],
    ['size of the page', mib(statSync(target).size)],
    ['first picture, after opening', seconds(median(first))],
    ...(await measurePage(shown)),
  ];
  await shown.context.close();
  return rows;
}

/** The address that `vramwise view --serve` says, and when. */
function serve(path) {
  const begin = performance.now();
  const server = spawn(program, ['view', path, '--serve'], { stdio: ['ignore', 'pipe', 'pipe'] });
  return new Promise((found, failed) => {
    let said = '';
    for (const stream of [server.stdout, server.stderr])
      createInterface({ input: stream }).on('line', (line) => {
        said += `${line}\n`;
        const address = /http:\/\/\S+/.exec(line)?.[0];
        if (address) found({ server, address, up: performance.now() - begin });
      });
    server.once('close', () => failed(new Error(`vramwise view --serve ended:\n${said}`)));
  });
}

async function benchServed(browser, { name, path }) {
  const many = join(scratch, 'many.pickle');
  const repeat = join(ROOT, 'bench/repeat_recording.py');
  execFileSync('python3', [repeat, path, String(MANY_EVENTS), many], { stdio: ['ignore', 'ignore', 'inherit'] });
  const stats = statsOf(program, many);
  const { server, address, up } = await serve(many);
  try {
    const shown = await open(browser, address);
    const rows = [
      ['recording', `${name} repeated: ${count(stats.events)} events, ${count(stats.allocs)} blocks, ${mib(statSync(many).size)}`],
      ['`vramwise view --serve`, until it is up', seconds(up)],
      ['first picture, after opening', seconds(shown.firstPicture)],
      ...(await measurePage(shown)),
    ];
    await shown.context.close();
    return rows;
  } finally {
    server.kill('SIGTERM');
    rmSync(many); // some 800 MB
  }
}

mkdirSync(scratch, { recursive: true });
const browser = await chromium.launch({ executablePath: findChromium(), args: BROWSER_ARGUMENTS });
const machine = describeMachine(browser.version());
const recording = chooseRecording();
const parts = [
  '# The page of `vramwise view`',
  `\`make bench-viewer\` (bench/viewer/bench_viewer.mjs). ${machine}. A window of ${VIEWPORT.width} x ${VIEWPORT.height}; times are the` +
    ` median of ${TURNS} turns; frames are those of ${SECONDS} seconds with a wheel or pointer event in each, and a browser without a` +
    ' GPU makes 60 a second at the most. While it moves, a picture may be coarser than when it stands still.',
  '## A page',
  table(await benchPage(browser, recording)),
  '## Many events, served',
  table(await benchServed(browser, recording)),
];
await browser.close();
const text = `${parts.join('\n\n')}\n`;
writeFileSync(resolve(process.argv[3] ?? join(ROOT, 'bench/results/viewer.md')), text);
console.log(text);
