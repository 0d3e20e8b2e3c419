import { formatCount, formatMs, formatPerSecond } from './format.ts'
import type { View, ViewProps } from './panel.tsx'

interface Tile {
  readonly label: string
  readonly value: string
  readonly below: string
  /** Whether it is a fault of the service. */
  readonly isBad?: boolean
}

/** The row of numbers at the top. */
export function Tiles({ view }: ViewProps) {
  return (
    <dl class="tiles" id="tiles" aria-label="Now">
      {tilesOf(view).map(({ label, value, below, isBad }) => (
        <div class="panel" key={label}>
          <dt>{label}</dt>
          <dd class={isBad ? 'value bad' : 'value'}>{value}</dd>
          <dd class="faint">{below}</dd>
        </div>
      ))}
    </dl>
  )
}

/** Rates are those of the newest sample. */
function tilesOf({ status, samples }: View): readonly Tile[] {
  const { requests, queues, connections, limits, bans, users } = status
  const sample = samples.at(-1)
  const ended = sample && Object.values(sample.by_status).reduce((sum, count) => sum + count, 0)
  const perSecond = (count = 0) => formatPerSecond(sample && count / sample.seconds)
  const refused = limits.rules.reduce((sum, rule) => sum + rule.refused, 0)
  const inAll = `${formatCount(requests.total)} in all`
  const failing = sample?.by_status['5xx'] ?? 0
  const sinceStart = `${formatCount(requests.by_status['5xx'])} since the start`
  const waiting = queues.requests + queues.writes + queues.passwords
  const refusing = limits.rules.length === 0 ? 'no rules' : `refused: ${formatCount(refused)}`
  const open = `connections: ${formatCount(connections)}`
  return [
    { label: 'Requests', value: perSecond(ended), below: inAll },
    { label: 'Failed', value: perSecond(failing), below: sinceStart, isBad: failing > 0 },
    { label: 'p99', value: formatMs(sample?.p99_ms), below: `p50 ${formatMs(sample?.p50_ms)}` },
    { label: 'In flight', value: formatCount(requests.in_flight), below: open },
    { label: 'Waiting', value: formatCount(waiting), below: `shed: ${formatCount(requests.shed)}` },
    { label: 'Bans', value: formatCount(bans), below: refusing },
    { label: 'Users', value: formatCount(users), below: 'in the database' },
  ]
}
