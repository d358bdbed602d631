// Tables for a spreadsheet: comma-separated, or with tabs for the clipboard. Bytes are whole numbers.

export type Cell = string | number | null; // null: not known, an empty cell
export type Separator = ',' | '\t';

/** A cell that no spreadsheet takes for a formula, whatever the recording calls its functions. */
function cellText(cell: Cell, separator: Separator): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return String(cell);
  const safe = /^[=+\-@\t\r]/.test(cell) ? `'${cell}` : cell;
  if (separator === '\t') return safe.replace(/[\t\r\n]/g, ' ');
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function tableText(head: readonly string[], rows: readonly (readonly Cell[])[], separator: Separator = ','): string {
  return [head, ...rows].map((row) => `${row.map((cell) => cellText(cell, separator)).join(separator)}\n`).join('');
}
