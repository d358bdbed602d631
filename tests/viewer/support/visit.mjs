// A page in the browser, watched for everything that a page of ours must never do. When the test is
// over, having done any of it fails the test.
//
// A new context takes longer than most tests, so each worker has one that it uses again: between two
// tests its storage is emptied, and its page goes elsewhere. What needs another window, other colours
// or a script of its own gets a context of its own, and so does what comes after a test that failed.

import { chromium } from 'playwright-core';
import { expect, inject, onTestFinished } from 'vitest';
import { PATIENCE_MS } from './places.mjs';
import { addressOf, pageOf } from './program.mjs';

const WINDOW = { width: 1280, height: 800 };

let browser = null;
let shared = null; // the context that is used again, where no test has it

/** A context with one page. It notes what the page says, asks for and opens. */
async function open(options) {
  browser ??= await chromium.connect(inject('browser'));
  const context = await browser.newContext({ viewport: WINDOW, colorScheme: 'light', locale: 'en-GB', ...options });
  context.setDefaultTimeout(PATIENCE_MS);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']);
  const page = await context.newPage();
  const opened = { context, page, allowed: [], offences: [] };
  const note = (what) => opened.offences.push(what);
  page.on('console', (message) => {
    if (['error', 'warning', 'assert'].includes(message.type())) note(`console: ${message.text()}`);
  });
  page.on('pageerror', (error) => note(`error: ${error.message}`));
  page.on('dialog', (dialog) => {
    note(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  context.on('request', (request) => {
    const address = request.url().split('#')[0];
    if (!opened.allowed.includes(address) && !/^(blob|data):/.test(address)) note(`request: ${address}`);
  });
  context.on('page', (other) => note(`window: ${other.url()}`));
  return opened;
}

async function take(options, isPlain) {
  if (!isPlain || shared === null) return open(options);
  const taken = shared;
  shared = null;
  return taken;
}

/** For the next test, or not at all. */
async function giveBack(opened, isFit) {
  if (!isFit || shared !== null) return opened.context.close();
  await opened.page.evaluate(() => localStorage.clear());
  await opened.page.mouse.move(0, 0);
  await opened.page.goto('about:blank');
  shared = opened;
}

/** Opens an address. `hash` is put behind it, `also` are names beside it that the page may ask for; `script`
 * runs before the page's own; `isStarted` false: it is not expected to get ready; `mayComplain`: what it
 * does is the test's own business. The rest are options of a context. */
export async function visitAddress(address, given = {}) {
  const { hash = '', also = [], script = null, isStarted = true, mayComplain = false, ...options } = given;
  const isPlain = script === null && Object.keys(options).length === 0;
  const opened = await take(options, isPlain);
  const { page } = opened;
  const offences = (opened.offences = []);
  opened.allowed = [address, ...also.map((name) => new URL(name, address).href)];
  onTestFinished(async (result) => {
    await giveBack(opened, isPlain && result.state !== 'fail');
    if (!mayComplain) expect(offences).toEqual([]);
  });
  if (script !== null) await page.addInitScript(script);
  await page.goto(address + (hash === '' ? '' : `#${hash}`), { waitUntil: 'commit' });
  if (isStarted) await ready(page);
  return { page, offences };
}

/** Opens the page that `vramwise view` writes of a recording, or of two. */
export async function visit(files, options = {}) {
  const path = await pageOf(...[files].flat());
  return visitAddress(addressOf(path), options);
}

/** Until the page shows its first picture, or the reason why it has none. */
export async function ready(page) {
  await page.locator('html[data-state="ready"]').waitFor({ state: 'attached' });
}

/** What the address says behind the #. */
export const linkOf = (page) => new URLSearchParams(new URL(page.url()).hash.slice(1));

export const tab = (page, name) => page.getByRole('tab', { name, exact: true });

/** Shows a tab, and gives its panel. */
export async function show(page, name) {
  await tab(page, name).click();
  await page.locator(`[role=tab][aria-selected=true]`, { hasText: name }).waitFor();
  return page.locator('[role=tabpanel]:not([hidden])');
}

/** Until what was asked for before this has been drawn: panels draw in the next frame. */
export const drawn = (page) =>
  page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))));

/** What is seen of an element, to compare with another picture of it. */
export async function pictureOf(page, canvas) {
  await drawn(page);
  return (await canvas.screenshot({ animations: 'disabled' })).toString('base64');
}
