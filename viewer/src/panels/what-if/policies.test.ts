import { describe, expect, it } from 'vitest';
import type { Device, WhatIf } from '../../data/model';
import { sampleDevice } from '../../testing/model';
import { fitText, leftOutText, policiesOf, policiesText } from './policies';

const GIB = 1024 ** 3;
const line = { instant: Uint32Array.of(0, 5), bytes: Float64Array.of(GIB, 2 * GIB) };
const replay = (policy: string, change: Partial<WhatIf> = {}): WhatIf => ({
  policy, conf: '', is_complete: true, peak_reserved_bytes: 2 * GIB, peak_live_bytes: GIB, ratio: 2, retries: 0, device_ns: 5_000_000,
  oom_instant: null, points: 2, line, ...change,
});
const device = (whatIf: WhatIf[]): Device => ({
  ...sampleDevice({ lastInstant: 10, blocks: [{ begin: 1, size: GIB }], reserved: [[0, 0], [1, 3 * GIB]] }),
  whatIf,
});

describe('the policies of what-if', () => {
  it('begin with what was recorded', () => {
    const policies = policiesOf(device([replay('native'), replay('vramwise')]));
    expect(policies.map(({ name, peak, ratio, deviceUs }) => [name, peak / GIB, ratio, deviceUs])).toEqual([
      ['recorded', 3, 3, null],
      ['native', 2, 2, 5000],
      ['vramwise', 2, 2, 5000],
    ]);
    expect(new Set(policies.map((policy) => policy.dash.join())).size).toBe(3);
    expect(new Set(policies.map((policy) => policy.colour)).size).toBe(3);
  });

  it('end where memory ran out', () => {
    const [, failed] = policiesOf(device([replay('native', { is_complete: false, oom_instant: 7 })]));
    expect(failed).toMatchObject({ end: 7, failedAt: 7 });
    const [, stopped] = policiesOf(device([replay('native', { is_complete: false })]));
    expect(stopped!.end).toBe(5);
  });

  it('are told apart by their settings where one is there twice', () => {
    const names = policiesOf(device([replay('native', { conf: 'a:1' }), replay('native', { conf: 'a:2' }), replay('other')])).map((policy) => policy.name);
    expect(names).toEqual(['recorded', 'native (a:1)', 'native (a:2)', 'other']);
  });

  it('are numbers in a spreadsheet', () => {
    const lines = policiesText(policiesOf(device([replay('native', { conf: 'a:1,b:2' })]))).split('\n');
    expect(lines[0]).toBe('policy,conf,peak_reserved_bytes,ratio,retries,device_us,out_of_memory_at_instant');
    expect(lines[2]).toBe('native,"a:1,b:2",2147483648,2,0,5000,');
  });

  it('are compared with a card in words', () => {
    const policies = policiesOf(device([replay('native'), replay('vramwise', { oom_instant: 3, is_complete: false })]));
    expect(fitText(policies, 2 * GIB)).toMatch(/^Below 2\.00 GiB stay: native \(2\.00 GiB\)\. More is reserved by recorded \(3\.00 GiB\).*already: vramwise\.$/);
    expect(fitText(policies, GIB)).toMatch(/^None stays below 1\.00 GiB\./);
  });

  it('that have no line are named with the reason', () => {
    expect(leftOutText([])).toBe('');
    expect(leftOutText([{ policy: 'expandable', reason: 'not in 1.13' }, { policy: 'x', reason: 'no.' }])).toBe(
      'expandable could not be replayed: not in 1.13. x could not be replayed: no.',
    );
  });
});
