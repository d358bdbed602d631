// beside_memory_viz.mjs BUILD_FOLDER MEMORY_VIZ.js D3.js [RESULT.md] - the page of `vramwise view` and PyTorch's
// memory_viz, in one run of one browser, on the same recording: the time to the first picture, how many blocks it
// shows, and memory.
//
// MEMORY_VIZ.js is torch/utils/viz/MemoryViz.js of PyTorch, D3.js its library (d3.v5.min.js): neither is part of this
// repository, and nothing is fetched. The recording is generate_kv.native of VRAMWISE_CORPUS (662,000 events), or one of
// tests/data. Their page is given the unpacked pickle by a server of this machine, ours lies in a file.

import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from '../../viewer/node_modules/playwright-core/index.mjs';
import { BROWSER_ARGUMENTS, findChromium } from '../../tests/viewer/support/chromium.mjs';
import { describeMachine } from './machine.mjs';
import { chooseRecording, count, heapOf, median, mib, ROOT, seconds, statsOf, table, VIEWPORT } from './measure.mjs';

const TURNS = 5;

const [buildFolder, vizPath, d3Path, resultPath] = process.argv.slice(2);
if (d3Path === undefined) {
  console.error('usage: beside_memory_viz.mjs BUILD_FOLDER MEMORY_VIZ.js D3.js [RESULT.md]');
  process.exit(2);
}
const program = join(resolve(buildFolder), 'vramwise');
const scratch = join(resolve(buildFolder), 'bench-viewer');

/** Their module imports d3 and parts of it from a host: each is answered by the one that is on the page. */
const shim = (names) => names.map((name) => `export const ${name} = window.d3[${JSON.stringify(name)}];`).join('\n');
const d3Names = (text) => [...new Set([...text.matchAll(/\bd3\.([A-Za-z_]\w*)/g)].map((found) => found[1]))];
const imported = (text) => [...new Set([...text.matchAll(/import \{([^}]*)\}/g)].flatMap((found) => found[1].split(',').map((name) => name.trim())))];

const THEIR_PAGE = `<!DOCTYPE html><meta charset=utf-8><body><script src="/d3.js"></script><script type="module">
import { add_remote_files } from '/viz.js';
add_remote_files([{ name: 'recording', url: '/recording.pickle' }]);
</script>`;

/** Their page, their script and the recording, at an address of this machine. */
async function serveTheirs(viz, pickle) {
  const answers = {
    '/': ['text/html', THEIR_PAGE],
    '/d3.js': ['text/javascript', readFileSync(d3Path)],
    '/viz.js': ['text/javascript', viz],
    '/recording.pickle': ['application/octet-stream', pickle],
  };
  const server = createServer((request, response) => {
    const [type, body] = answers[request.url] ?? ['text/plain', ''];
    response.writeHead(request.url in answers ? 200 : 404, { 'Content-Type': type });
    response.end(body);
  });
  await new Promise((isUp) => server.listen(0, '127.0.0.1', isUp));
  return { server, address: `http://127.0.0.1:${server.address().port}/` };
}

const answerImports = (shims) => (context) =>
  context.route(/^https:/, (route) =>
    route.fulfill({ contentType: 'text/javascript', body: shims, headers: { 'Access-Control-Allow-Origin': '*' } }));

/** Opens an address, and notes when the frame after `isShown` (in the page) was drawn. */
async function open(browser, address, isShown, prepare = async () => undefined) {
  const context = await browser.newContext({ viewport: VIEWPORT });
  await prepare(context);
  const page = await context.newPage();
  await page.addInitScript({
    content: `{
      const isShown = () => ${isShown};
      const look = () => (isShown() ? requestAnimationFrame(() => (window.benchReady = performance.now())) : requestAnimationFrame(look));
      requestAnimationFrame(look);
    }`, // as text: our page lets no script make another
  });
  await page.goto(address, { waitUntil: 'commit' });
  const handle = await page.waitForFunction(() => window.benchReady, null, { timeout: 300_000 });
  return { context, page, firstPicture: await handle.jsonValue() };
}

/** The median time to the first picture, and what the last page says and holds. */
async function measure(browser, ...how) {
  const times = [];
  let shown = null;
  for (let turn = 0; turn < TURNS; turn++) {
    await shown?.context.close();
    shown = await open(browser, ...how);
    times.push(shown.firstPicture);
  }
  const heap = await heapOf(shown.context, shown.page);
  const text = await shown.page.evaluate(() => document.body.textContent);
  await shown.context.close();
  return { time: median(times), bytes: heap.objects + heap.arrays, text };
}

mkdirSync(scratch, { recursive: true });
const { name, path } = chooseRecording();
const stats = statsOf(program, path);
const target = join(scratch, 'page.html'), unpacked = join(scratch, 'recording.pickle');
execFileSync(program, ['view', path, '-o', target], { stdio: ['ignore', 'ignore', 'inherit'] });
execFileSync('sh', ['-c', 'xz -dc "$1" > "$2"', 'sh', path, unpacked]);
const pickle = readFileSync(unpacked);
rmSync(unpacked);

const browser = await chromium.launch({ executablePath: findChromium(), args: BROWSER_ARGUMENTS });
const machine = describeMachine(browser.version());
const ours = await measure(browser, `${pathToFileURL(target).href}#tab=timeline`, "document.documentElement?.dataset.state === 'ready'");
const viz = readFileSync(vizPath, 'utf8');
const { server, address } = await serveTheirs(viz, pickle);
const shims = shim([...new Set([...d3Names(viz), ...imported(viz)])]);
const theirs = await measure(browser, address, "/Detail: \\d+ of/.test(document.body?.textContent ?? '')", answerImports(shims));
server.close();
await browser.close();

const [, drawn, all] = /Detail: (\d+) of (\d+)/.exec(theirs.text);
const result = [
  '# The page of `vramwise view` beside PyTorch\'s memory_viz',
  `bench/viewer/beside_memory_viz.mjs. ${machine}. A window of ${VIEWPORT.width} x ${VIEWPORT.height}; times are the median of ${TURNS} turns, from` +
    ` opening the page to the frame with the first picture; memory is what the page holds then, after collecting garbage. ${name}, ${count(stats.events)} events.`,
  table([
    ['`vramwise view`', seconds(ours.time), `${count(stats.allocs)} of ${count(stats.allocs)}`, mib(ours.bytes)],
    ['memory_viz', seconds(theirs.time), `${count(Number(drawn))} of ${count(Number(all))}`, mib(theirs.bytes)],
  ], ['', 'first picture', 'blocks in it', 'memory']),
];
const text = `${result.join('\n\n')}\n`;
writeFileSync(resolve(resultPath ?? join(ROOT, 'bench/results/viewer_beside_memory_viz.md')), text);
console.log(text);
