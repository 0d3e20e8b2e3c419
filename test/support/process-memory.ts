import { readFileSync } from 'node:fs'

/** The memory of a process in MB as Linux reports it: now (`VmRSS`), or the most so far (`VmHWM`). */
export function residentMb(pid: number | undefined, field: 'VmRSS' | 'VmHWM' = 'VmRSS'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'utf8')
  return Math.round(Number(new RegExp(`${field}:\\s+(\\d+)`).exec(status)?.[1]) / 1024)
}
