import type { FaultWindows } from './fault-windows.ts'
import type { Check } from './final-checks.ts'
import type { Service } from './service.ts'

/** Written while the database is away. Both are done once it is back. */
const WITHOUT_DATABASE = new Set(['cannot persist a ban', 'cannot record when API keys were used'])

/** No line of level error or fatal, except about a planned fault. */
export function compareLogs(services: readonly Service[], windows: FaultWindows): Check {
  const bad = services.flatMap(service =>
    service.lines.filter(({ line, at }) => {
      const isWaiting = WITHOUT_DATABASE.has(String(line.msg))
      return !(isWaiting && windows.met('database', at, undefined, at))
    }),
  )
  const examples = bad.slice(0, 3).map(({ line }) => JSON.stringify(line).slice(0, 300))
  return {
    check: 'no log line of level error, except about what waits for the database',
    isFine: bad.length === 0,
    figure: `${bad.length} lines${examples.length > 0 ? `: ${examples.join(' ')}` : ''}`,
  }
}
