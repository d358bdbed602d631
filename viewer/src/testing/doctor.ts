// A doctor's report for tests, with texts that would do harm if any of them became markup.

import type { DoctorReport, Finding } from '../data/header';
import type { Model } from '../data/model';

export const EVIL = '<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>';

export function sampleFinding(change: Partial<Finding> = {}): Finding {
  return { kind: 'peak', title: 'title', bytes: 2048, where: [], evidence: [], parts: [], remedies: [], ...change };
}

export function sampleDoctor(change: Partial<DoctorReport> = {}): DoctorReport {
  return {
    verdict: 'leak',
    confidence: 'high',
    sentence: 'Leak: it grows.',
    reasoning: [],
    numbers: { tried_bytes: null, total_bytes: null, free_bytes: null, allocated_bytes: null, reserved_bytes: null, process_bytes: null, allowed_bytes: null, device: 0 },
    findings: [],
    ...change,
  };
}

export function withDoctor(model: Model, doctor: DoctorReport): Model {
  return { ...model, runs: model.runs.map((run) => ({ ...run, doctor })) };
}
