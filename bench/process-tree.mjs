// The CPU time and memory of a process and its children, from /proc of Linux.
import { readdirSync, readFileSync } from 'node:fs'

/** What `getconf CLK_TCK` says on Linux. */
const TICKS_A_SECOND = 100

/** The CPU time of all processes of the tree so far, and the sum of their highest memory use. Only of processes that run. */
export function usageOfTree(pid) {
  const usages = [pid, ...descendantsOf(pid)].map(usageOf)
  return {
    cpuMicros: sumOf(usages.map(({ cpuMicros }) => cpuMicros)),
    peakBytes: sumOf(usages.map(({ peakBytes }) => peakBytes)),
  }
}

function descendantsOf(pid) {
  const children = readdirSync(`/proc/${pid}/task`).flatMap(thread =>
    readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean),
  )
  return children.flatMap(child => [child, ...descendantsOf(child)])
}

function usageOf(pid) {
  // The name of the program, in parentheses, may have spaces.
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ')
  const [user, system] = [Number(fields[11]), Number(fields[12])]
  const [, peakKib] = /^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return {
    cpuMicros: ((user + system) * 1e6) / TICKS_A_SECOND,
    peakBytes: Number(peakKib) * 1024,
  }
}

function sumOf(values) {
  return values.reduce((sum, value) => sum + value, 0)
}
