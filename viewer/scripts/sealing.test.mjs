import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { DATA_PLACE, escapeScript, escapeStyle, policyOf, scriptsOf, seal } from './sealing.mjs';

const HTML = `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta name="generator" content="vramwise view" />
    <link rel="icon" href="data:image/svg+xml,x" />
    <script>
      check();
    </script>
    <script type="module" crossorigin src="./page.js"></script>
    <link rel="stylesheet" crossorigin href="./page.css">
  </head>
  <body>
    <div id="app"></div>
    ${DATA_PLACE}
  </body>
</html>
`;
const NOTICES = [{ name: 'part', licence: 'MIT -- free\r\n' }];
const sealed = (change = {}) => seal({ html: HTML, script: 'run()', style: 'a{}', notices: NOTICES, ...change });

describe('the sealed page', () => {
  it('has script and style inside, and its one place for the data, empty', () => {
    const page = sealed();
    expect(page).toContain('<script type="module">\nrun()\n</script>');
    expect(page).toContain('<style>\na{}\n</style>');
    expect(page.split(DATA_PLACE).length).toBe(2);
    expect(page).toContain('<meta name="generator" content="vramwise view" />');
    expect(page).not.toMatch(/page\.(js|css)/);
  });

  it('names its scripts by what a browser would hash, before the first of them', () => {
    const page = sealed(), scripts = scriptsOf(page);
    expect(scripts).toEqual(['\n      check();\n    ', '\nrun()\n']);
    const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`).join(' ');
    expect(page).toContain(`content="default-src 'none'; script-src ${hashes}; style-src 'unsafe-inline'; img-src data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'"`);
    expect(page.indexOf('Content-Security-Policy')).toBeLessThan(page.indexOf('<script'));
  });

  it('allows no script but those', () => {
    expect(policyOf(['a'])).not.toContain('unsafe-eval');
    expect(policyOf(['a']).match(/script-src[^;]*/)[0]).not.toContain('unsafe');
  });

  it('is the same from sources with other line ends', () => {
    expect(sealed({ html: HTML.replace(/\n/g, '\r\n'), script: 'run()\r\n' })).toBe(sealed());
  });

  it('takes $& and the like in code for what they are', () => {
    expect(sealed({ script: "a.replace(b,'$&$1$`')" })).toContain("a.replace(b,'$&$1$`')");
  });

  it('names the parts of others', () => {
    expect(sealed()).toContain('<!-- Parts of others in this page:\n\npart\n\nMIT - - free\n-->');
  });
});

describe('code that looks like markup', () => {
  it('does not end the script, and means the same', () => {
    const code = 'f("</script><!--<script>",/<\\/ScRiPt>|<!--/.source,`</SCRIPT>`)';
    const escaped = escapeScript(code);
    expect(escaped).not.toMatch(/<\/script|<!--/i);
    expect(new Function('f', escaped)).toBeTypeOf('function');
    const seen = [];
    new Function('f', escaped)((...all) => seen.push(...all));
    expect([seen[0], seen[2]]).toEqual(['</script><!--<script>', '</SCRIPT>']);
    expect(new RegExp(seen[1]).test('<!--')).toBe(true);
    expect(scriptsOf(sealed({ script: code })).length).toBe(2);
  });

  it('that compares is left alone', () => {
    expect(escapeScript('for(;i<script.length;)i<style')).toBe('for(;i<script.length;)i<style');
    expect(escapeStyle('a::after{content:"</style>"}')).toBe('a::after{content:"\\3C /style>"}');
  });
});

describe('a build that is not what was expected', () => {
  it('is refused', () => {
    const without = (text) => ({ html: HTML.replace(text, '') });
    expect(() => sealed(without(/<link rel="stylesheet".*\n/))).toThrow('0 of a style sheet, expected 1');
    expect(() => sealed(without(/<script type="module".*\n/))).toThrow('0 of a script, expected 1');
    expect(() => sealed(without(DATA_PLACE))).toThrow('the page needs');
    expect(() => sealed({ html: HTML.replace('<div', `${DATA_PLACE}<div`) })).toThrow('the page needs');
    expect(() => sealed({ script: `f('${DATA_PLACE.replace('</script>', '')}')` })).toThrow('the page needs');
    expect(() => sealed(without('<meta name="generator" content="vramwise view" />'))).toThrow('generator');
    expect(() => sealed({ html: HTML.replace('<div', '<script async>x()</script><div') })).toThrow('no hash');
    expect(() => sealed({ html: HTML.replace('<div', '<script>x()</script><div') })).toThrow('3 scripts');
    expect(() => sealed({ html: HTML.replace('<div', '<img src="https://a.b/c.png"><div') })).toThrow('refers to another file');
  });
});

describe('the committed page', () => {
  const page = readFileSync(new URL('../dist/page.html', import.meta.url), 'utf8');

  it('is sealed: its scripts are those of its policy', () => {
    const scripts = scriptsOf(page);
    expect(scripts.length).toBe(2);
    expect(page).toContain(`content="${policyOf(scripts)}"`);
    expect(page.split(DATA_PLACE).length).toBe(2);
  });
});
