import { describe, expect, it } from 'vitest';
import { cleanText, cleanTexts } from './texts';

describe('a text of a recording', () => {
  it('cannot turn around what stands beside it, nor hold control characters', () => {
    expect(cleanText('a\u202eb\u2066c\u0000d\u001be\r')).toBe('a\ufffdb\ufffdc\ufffdd\ufffde\ufffd');
  });

  it('is otherwise left as it is', () => {
    for (const text of ['', 'two\nlines\tand a tab', '\u6a21\u578b.py', '\u{1f600}', '\u05d0\u05d1', '<b>&"']) expect(cleanText(text)).toBe(text);
  });

  it('is cleaned anywhere in a document', () => {
    expect(JSON.parse('{"a": ["\\u202e", 1, null, {"b": "\\u0000x"}]}', cleanTexts)).toEqual({ a: ['\ufffd', 1, null, { b: '\ufffdx' }] });
  });
});
