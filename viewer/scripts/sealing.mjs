// Makes one page of the built parts. Pure: texts in, text out, so that it is tested without files.

import { createHash } from 'node:crypto';

export const DATA_PLACE = '<script type="text/plain" id="vramwise-data"></script>';

/** Inside a string, a template or a regular expression \x3C is <. Elsewhere minified code has neither of
 * these; seal.mjs parses what comes out, so that it would be noticed. */
export function escapeScript(code) {
  return code.replace(/<(?=\/script|!--)/gi, '\\x3C');
}

export function escapeStyle(style) {
  return style.replace(/<(?=\/style)/gi, '\\3C ');
}

export function hashOf(script) {
  return `'sha256-${createHash('sha256').update(script, 'utf8').digest('base64')}'`;
}

export function policyOf(scripts) {
  return [
    "default-src 'none'",
    `script-src ${scripts.map(hashOf).join(' ')}`,
    "style-src 'unsafe-inline'",
    'img-src data: blob:',
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

function countOf(text, part) {
  return text.split(part).length - 1;
}

/** Puts `now` where `pattern` is found, which has to be once. The text of `now` means nothing special. */
function putOnce(html, pattern, what, now) {
  const found = html.match(new RegExp(pattern, 'g')) ?? [];
  if (found.length !== 1) throw new Error(`the built page has ${found.length} of ${what}, expected 1`);
  return html.replace(pattern, () => now);
}

function withoutCarriageReturns(text) {
  return text.replace(/\r\n?/g, '\n');
}

function commentOf(notices) {
  const text = notices.map(({ name, licence }) => `${name}\n\n${licence.trim()}`).join('\n\n');
  return `<!-- Parts of others in this page:\n\n${withoutCarriageReturns(text).replace(/--/g, '- -')}\n-->`;
}

/** The text of every script that runs, as a browser hashes it. */
export function scriptsOf(html) {
  return [...html.matchAll(/<script(?: type="module")?>([\s\S]*?)<\/script>/g)].map((match) => match[1]);
}

/** notices: [{ name, licence }] of what is bundled. */
export function seal({ html, script, style, notices }) {
  let page = withoutCarriageReturns(html);
  page = putOnce(page, /<link rel="stylesheet"[^>]* href="\.\/page\.css">/, 'a style sheet', `<style>\n${escapeStyle(withoutCarriageReturns(style)).trim()}\n</style>`);
  page = putOnce(page, /<script type="module"[^>]* src="\.\/page\.js"><\/script>/, 'a script', `<script type="module">\n${escapeScript(withoutCarriageReturns(script)).trim()}\n</script>`);
  const scripts = scriptsOf(page);
  const policy = `<meta http-equiv="Content-Security-Policy" content="${policyOf(scripts)}" />`;
  page = putOnce(page, /<meta charset="utf-8" \/>/, 'a charset', `<meta charset="utf-8" />\n    ${policy}`);
  page = putOnce(page, /<!doctype html>/, 'a doctype', `<!doctype html>\n${commentOf(notices)}`);
  check(page, scripts);
  return page;
}

function check(page, scripts) {
  if (countOf(page, DATA_PLACE) !== 1 || countOf(page, 'id="vramwise-data"') !== 1)
    throw new Error(`the page needs ${DATA_PLACE} once`);
  if (countOf(page, '<meta name="generator" content="vramwise view" />') !== 1) throw new Error('the page has lost its generator');
  if (scripts.length !== 2) throw new Error(`the page has ${scripts.length} scripts, expected the check of the browser and its own`);
  const rest = scripts.reduce((text, script) => text.replace(script, () => ''), page).replace(/<style>[\s\S]*?<\/style>/, '');
  if (countOf(rest.toLowerCase(), '<script') !== 3) throw new Error('there is a script that no hash was made of');
  if (/\s(?:src|href)=["']?(?!["']?data:)/.test(rest)) throw new Error('the page refers to another file');
}
