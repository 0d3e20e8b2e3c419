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
      {view !== undefined &&
        tilesOf(view).map(({ label, value, below, isBad }) => (
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
  const { requests, queues, connections, limits, bans } = status
  const sample = samples.at(-1)
  const ended = sample && Object.values(sample.by_status).reduce((sum, count) => sum + count, 0)
  const perSecond = (count = 0) => formatPerSecond(sample && count / sample.seconds)
  const failed = requests.by_status['5xx'] ?? 0
  return [
    {
      label: 'Requests',
      value: perSecond(ended),
      below: `${formatCount(requests.total)} in all`,
    },
    {
      label: 'Failed',
      value: perSecond(sample?.by_status['5xx']),
      below: `${formatCount(failed)} since the start`,
      isBad: (sample?.by_status['5xx'] ?? 0) > 0,
    },
    {
      label: 'p99',
      value: formatMs(sample?.p99_ms),
      below: `p50 ${formatMs(sample?.p50_ms)}`,
    },
    {
      label: 'In flight',
      value: formatCount(requests.in_flight),
      below: `connections: ${formatCount(connections)}`,
    },
    {
      label: 'Waiting',
      value: formatCount(queues.requests + queues.writes + queues.passwords),
      below: `shed: ${formatCount(requests.shed)}`,
    },
    {
      label: 'Bans',
      value: formatCount(bans),
      below: describeCounting(limits),
      isBad: !limits.up,
    },
  ]
}

function describeCounting({ rules, store, up }: View['status']['limits']): string {
  if (rules.length === 0) return 'no rules'
  if (store === 'none') return 'no counting'
  return up ? `in ${store}` : `${store} is down`
}
