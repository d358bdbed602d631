// @vitest-environment jsdom
import { describe, expect, it, vi } from 'vitest';
import { fill, h, svg } from './h';

describe('h', () => {
  it('makes texts of texts, whatever they say', () => {
    const element = h('p', { title: '"><b>' }, '<img src=x onerror=alert(1)>', 7, null, false, h('em', {}, 'end'));
    expect(element.childElementCount).toBe(1);
    expect(element.textContent).toBe('<img src=x onerror=alert(1)>7end');
    expect(element.getAttribute('title')).toBe('"><b>');
  });

  it('listens with functions and refuses code in texts', () => {
    const clicked = vi.fn();
    h('button', { onclick: clicked }).click();
    expect(clicked).toHaveBeenCalledOnce();
    expect(() => h('a', { onclick: 'alert(1)' })).toThrow("'onclick' cannot be a text");
    expect(() => h('iframe', { srcdoc: '<p>' })).toThrow("'srcdoc' cannot be a text");
    expect(() => h('a', { href: () => undefined })).toThrow("'href' takes no function");
    for (const href of ['javascript:alert(1)', ' javascript:1', 'java\nscript:1', 'data:text/html,x']) expect(() => h('a', { href })).toThrow("'href' cannot lead to");
    for (const href of ['#tab=flame', 'https://example.org/', 'blob:null/1']) expect(h('a', { href }).getAttribute('href')).toBe(href);
  });

  it('leaves out what is false, null or undefined, and keeps 0', () => {
    const element = h('input', { disabled: true, hidden: false, name: null, title: undefined, tabindex: 0 });
    expect(element.getAttributeNames()).toEqual(['disabled', 'tabindex']);
  });

  it('makes SVG elements', () => {
    const rect = svg('rect', { width: 3 });
    expect(rect.namespaceURI).toBe('http://www.w3.org/2000/svg');
    expect(rect.getAttribute('width')).toBe('3');
  });

  it('fills anew', () => {
    const element = h('div', {}, 'old');
    fill(element, 'new', h('b'));
    expect(element.childNodes.length).toBe(2);
    expect(element.textContent).toBe('new');
  });
});
