import { describe, expect, it } from 'vitest';
import type { Header } from './header';
import { NONE } from './model';
import { readContainer, readHeader } from './container';
import { runsContainer, sampleContainer } from '../testing/container';
import { sampleRun, type Sample } from '../testing/model';

const SAMPLE: Sample = {
  lastInstant: 4,
  blocks: [
    { begin: 0, size: 512, address: 0x7f0000000000, stack: 1 },
    { begin: 1, end: 3, freed: 2, size: 1536, address: 0x7f0000000200, stack: 0, stream: 1 },
    { begin: 2, size: 2 ** 40 },
  ],
  pieces: [{ address: 0x7f0000000000, size: 2 ** 21, isExpandable: true, pool: 1 }],
  stacks: [
    { category: 'weights', frames: [{ functionName: 'empty', file: 'torch/nn.py', line: 3 }, { functionName: 'main', file: '/home/a/train.py', line: 152 }], where: 1 },
    { category: 'other', frames: [] },
  ],
  reserved: [[0, 2 ** 21]],
  stepEnds: [2, 4],
  marks: [{ kind: 'oom', instant: 3, bytes: 7, text: '</script><b>' }],
};

const spoilt = (change: (header: Header) => unknown): Promise<Uint8Array> => runsContainer([sampleRun(SAMPLE)], change);
const place = (header: Header, name: string): Header['columns'][number] => header.columns.find((column) => column.name === name)!;

describe('a container', () => {
  it('becomes the model it was made from', async () => {
    const model = await readContainer(await sampleContainer(SAMPLE));
    const made = sampleRun(SAMPLE), run = model.runs[0]!;
    expect(model.vramwise).toBe('0.0.0');
    expect(run.file).toBe('sample.pickle');
    expect(run.devices).toEqual(made.devices);
    expect(run.stacks.labelOf(0)).toBe('train.py:152 main');
    expect(run.stacks.framesOf(0)).toEqual(made.stacks.framesOf(0));
    expect(run.devices[0]!.blocks.end[2]).toBe(NONE);
  });

  it('has no text that misleads', async () => {
    const run = sampleRun({ ...SAMPLE, stacks: [{ frames: [{ functionName: 'a\u202eb', file: 'c\u0000', line: 1 }] }] });
    const model = await readContainer(await runsContainer([{ ...run, file: 'd\u2066' }]));
    expect(model.runs[0]!.file).toBe('d\ufffd');
    expect(model.runs[0]!.stacks.framesOf(0)).toEqual([{ functionName: 'a\ufffdb', file: 'c\ufffd', line: 1 }]);
  });

  it('of two runs has both, each with its busiest device', async () => {
    const devices = [SAMPLE, { ...SAMPLE, lastInstant: 9 }].map((sample) => sampleRun(sample).devices[0]!);
    const model = await readContainer(await runsContainer([sampleRun(SAMPLE), { ...sampleRun(SAMPLE), file: 'b', devices }]));
    expect(model.runs.map((run) => [run.file, run.busiest])).toEqual([['sample.pickle', 0], ['b', 1]]);
  });

  it('without devices, without a trace and with one event can be read', async () => {
    const empty = await readContainer(await runsContainer([{ ...sampleRun(SAMPLE), devices: [] }]));
    expect(empty.runs[0]!.devices).toEqual([]);
    expect(empty.runs[0]!.busiest).toBe(0);
    const still = await readContainer(await sampleContainer({ lastInstant: 0, blocks: [{ begin: 0, size: 512 }] }));
    expect(still.runs[0]!.devices[0]!.header.has_trace).toBe(false);
    const one = await readContainer(await sampleContainer({ lastInstant: 1, blocks: [{ begin: 1, size: 512 }] }));
    expect(one.runs[0]!.devices[0]!.blocks.count).toBe(1);
  });
});

describe('a damaged container', () => {
  it('of something else is named as such', async () => {
    expect(() => readHeader(new Uint8Array(0))).toThrow('not the data of a vramwise page');
    const bytes = await sampleContainer(SAMPLE);
    bytes[7] = 2;
    expect(() => readHeader(bytes)).toThrow('not the data of a vramwise page');
  });

  it('that ends anywhere is an error, never a model', async () => {
    const bytes = await sampleContainer(SAMPLE);
    const last = Math.max(...readHeader(bytes).columns.map((column) => column.offset + column.bytes));
    for (const length of [0, 7, 8, 15, 16, 17, 300, 65536, 65600, last - 1])
      await expect(readContainer(bytes.slice(0, length)), `${length} bytes`).rejects.toThrow(/cut short|not the data/);
  });

  it('whose header is no JSON, or of another form, says so', async () => {
    const bytes = await sampleContainer(SAMPLE);
    bytes[16] = 0x21;
    expect(() => readHeader(bytes)).toThrow('the header of the data cannot be read');
    await expect(readContainer(await spoilt((header) => (header.format = 2)))).rejects.toThrow('format 2, this page reads 1');
    await expect(readContainer(await spoilt((header) => ((header as Partial<Header>).columns = undefined as never)))).rejects.toThrow("lacks 'columns'");
    await expect(readContainer(await spoilt((header) => (header.runs = {} as never)))).rejects.toThrow("lacks 'runs'");
    await expect(readContainer(await spoilt((header) => (header.runs = [])))).rejects.toThrow("lacks 'runs'");
    await expect(readContainer(await spoilt((header) => (header.runs[0]!.devices = null as never)))).rejects.toThrow("lacks 'devices'");
  });

  it('lacking a column, or with one of another type, names it', async () => {
    await expect(readContainer(await spoilt((header) => header.columns.splice(0, 1)))).rejects.toThrow("lacks 'r0.frame.function'");
    await expect(readContainer(await spoilt((header) => (place(header, 'r0.d0.block.size').type = 'u32')))).rejects.toThrow("'r0.d0.block.size' is of u32, not u64");
  });

  it('with a column that lies elsewhere is refused', async () => {
    for (const offset of [1e9, -8, 0.5, NaN, 2 ** 60, '16'])
      await expect(readContainer(await spoilt((header) => (place(header, 'r0.d0.block.size').offset = offset as number))), String(offset)).rejects.toThrow('cut short');
    await expect(readContainer(await spoilt((header) => (place(header, 'r0.d0.block.size').bytes = 2 ** 40)))).rejects.toThrow('cut short');
  });

  it('whose counts do not agree is refused', async () => {
    await expect(readContainer(await spoilt((header) => (place(header, 'r0.d0.block.size').count = 4)))).rejects.toThrow("'r0.d0.block.size'");
    await expect(readContainer(await spoilt((header) => (header.runs[0]!.devices[0]!.block_count = 4)))).rejects.toThrow("'r0.d0.block.begin' has 3 values, not 4");
    await expect(readContainer(await spoilt((header) => (header.runs[0]!.devices[0]!.piece_count = 0)))).rejects.toThrow("'r0.d0.piece.begin' has 1 values, not 0");
    await expect(readContainer(await spoilt((header) => (place(header, 'r0.d0.block.size').count = -1)))).rejects.toThrow("'r0.d0.block.size'");
  });

  it('with bytes changed inside a column is refused', async () => {
    const bytes = await sampleContainer(SAMPLE);
    const { offset, bytes: length } = place(readHeader(bytes), 'r0.d0.block.address');
    bytes.fill(0xff, offset, offset + length);
    await expect(readContainer(bytes)).rejects.toThrow("'r0.d0.block.address' is damaged");
  });
});
