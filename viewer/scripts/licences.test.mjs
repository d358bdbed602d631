import { describe, expect, it } from 'vitest';
import { untoldLicences } from './licences.mjs';

const licence = { name: 'plot', version: '1.2.3', license: 'MIT', text: 'You may\n  do as you like.' };

describe('what THIRD_PARTY leaves out', () => {
  it('is nothing where name, version and text are there, however they are wrapped', () => {
    expect(untoldLicences('Plot 1.2.3, MIT\n\n    You may do\n    as you like.\n', [licence])).toEqual([]);
  });
  it('is the version, where another one is named', () => {
    expect(untoldLicences('plot 1.2.2, MIT\nYou may do as you like.', [licence])).toEqual(["THIRD_PARTY does not name 'plot 1.2.3, MIT'"]);
  });
  it('is the text, where a part of it is missing', () => {
    const [reason, ...more] = untoldLicences('plot 1.2.3, MIT\nYou may do.', [licence]);
    expect(reason).toContain('whole licence of plot');
    expect(more).toEqual([]);
  });
});
