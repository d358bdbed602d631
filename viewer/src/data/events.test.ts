import { describe, expect, it } from 'vitest';
import { eventNumber, eventText } from './events';

describe('events', () => {
  it('are numbered from 0, as vramwise stats does', () => {
    expect([1, 1235].map(eventText)).toEqual(['event 0', 'event 1,234']);
    expect([0, 1, 1235].map(eventNumber)).toEqual(['0', '0', '1,234']);
  });

  it('have none before the first', () => {
    expect(eventText(0)).toBe('the beginning');
  });
});
