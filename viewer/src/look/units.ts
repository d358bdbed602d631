// Numbers for people, in the words of the command line: "1.50 GiB", "662,000".

// Half to even, in whole numbers, as src/base/human_units.c does: toFixed() would round 1.125 up.
function inUnit(size: number, unit: number, name: string): string {
  const whole = Math.floor(size / unit), part = (size - whole * unit) * 100;
  let hundredths = Math.floor(part / unit);
  const twiceTheRest = (part % unit) * 2;
  if (twiceTheRest > unit || (twiceTheRest === unit && hundredths % 2 !== 0)) hundredths++;
  return `${whole + Math.floor(hundredths / 100)}.${String(hundredths % 100).padStart(2, '0')} ${name}`;
}

/** As the command line and PyTorch print it: each limit still belongs to the smaller unit. */
export function bytes(size: number): string {
  if (size < 0) return `-${bytes(-size)}`; // a difference
  if (size <= 1024) return `${size} bytes`;
  if (size <= 1024 ** 2) return inUnit(size, 1024, 'KiB');
  if (size <= 1024 ** 3) return inUnit(size, 1024 ** 2, 'MiB');
  return inUnit(size, 1024 ** 3, 'GiB');
}

export function count(value: number): string {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** A duration in microseconds. */
export function duration(us: number): string {
  if (us < 1000) return `${Math.round(us)} us`;
  if (us < 1e6) return `${(us / 1e3).toFixed(us < 1e4 ? 2 : 1)} ms`;
  if (us < 6e7) return `${(us / 1e6).toFixed(us < 1e7 ? 2 : 1)} s`;
  const seconds = Math.round(us / 1e6);
  return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
