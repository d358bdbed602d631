import { expect, it } from 'vitest';
import { tableText } from './csv';

it('a table is a line for its head and one for each row', () => {
  expect(tableText(['where', 'bytes'], [['train.py:1 main', 512], ['no stack', null]])).toBe('where,bytes\ntrain.py:1 main,512\nno stack,\n');
});

it('a cell is quoted where it must be, and never a formula', () => {
  expect(tableText(['a'], [['x,"y"'], ['=1+1'], ['-1'], [-1], ['two\nlines']])).toBe('a\n"x,""y"""\n\'=1+1\n\'-1\n-1\n"two\nlines"\n');
  expect(tableText(['a', 'b'], [['x\ty', '@z']], '\t')).toBe("a\tb\nx y\t'@z\n");
});

it('a sign behind white space is marked, and so is a wide one', () => {
  for (const cell of ['=1', ' =1', '  +1', ' -1', ' @x', '\uFF1D1', ' \uFF0B1', '\uFF0D1', '\uFF20x', '\n=1'])
    for (const separator of [',', '\t'] as const) expect(tableText([], [[cell]], separator)).toMatch(/^\n"?'/);
  expect(tableText([], [[' x=1']])).toBe('\n x=1\n');
});
