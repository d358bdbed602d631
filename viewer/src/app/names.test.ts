import { describe, expect, it } from 'vitest';
import { shortNames } from './names';

describe('short names', () => {
  it('are those without folders', () => {
    expect(shortNames(['/long/way/to/run.pickle'])).toEqual(['run.pickle']);
    expect(shortNames(['run.pickle'])).toEqual(['run.pickle']);
    expect(shortNames(['standard input'])).toEqual(['standard input']);
  });

  it('of two tell them apart', () => {
    expect(shortNames(['/x/a.pickle', '/x/b.pickle'])).toEqual(['a.pickle', 'b.pickle']);
    expect(shortNames(['/x/before/run.pickle', '/x/after/run.pickle'])).toEqual(['before/run.pickle', 'after/run.pickle']);
    expect(shortNames(['run.pickle', '/x/run.pickle'])).toEqual(['run.pickle', '/x/run.pickle']);
    expect(shortNames(['/x/run.pickle', '/x/run.pickle'])).toEqual(['run.pickle', 'run.pickle']);
  });
});
