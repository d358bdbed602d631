// Tables for a spreadsheet: comma-separated, or with tabs for the clipboard. Bytes are whole numbers.

export type Cell = string | number | null; // null: not known, an empty cell
export type Separator = ',' | '\t';

/** What a spreadsheet may take for a formula: a sign at the beginning or behind white space, also one of the wide signs of
 * East Asian keyboards. The rule of report_csv.c; here white space can be more than spaces. */
const FORMULA = /^(?:\s*[=+\-@\uFF1D\uFF0B\uFF0D\uFF20]|[\t\r])/;

/** A cell that no spreadsheet takes for a formula, whatever the recording calls its functions. */
function cellText(cell: Cell, separator: Separator): string {
  if (cell === null) return '';
  if (typeof cell === 'number') return String(cell);
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  if (separator === '\t') return safe.replace(/[\t\r\n]/g, ' ');
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

export function tableText(head: readonly string[], rows: readonly (readonly Cell[])[], separator: Separator = ','): string {
  return [head, ...rows].map((row) => `${row.map((cell) => cellText(cell, separator)).join(separator)}\n`).join('');
}
