import {
  formatCount,
  formatMs,
  formatPerSecond,
  formatRate,
  formatShare,
  GAP,
  NONE,
} from './format.ts'
import { recentRate, requestsIn, type View } from './state.ts'
import { type Tone, toneOf } from './table.tsx'

interface Tile {
  readonly label: string
  /** What it means, for the reader who points at it. */
  readonly title: string
  value(view: View): string
  below(view: View): string
  tone?(view: View): Tone
}

const failures = (view: View) => recentRate(view, sample => sample.by_status['5xx'] ?? 0)
const shed = (view: View) => recentRate(view, sample => sample.shed)
const refused = (view: View) => recentRate(view, sample => sample.refused)

const TILES: readonly Tile[] = [
  {
    label: 'Requests',
    title: 'Requests that ended, a second, over the last ten seconds',
    value: view => formatPerSecond(recentRate(view, requestsIn)),
    below: ({ status }) => `${formatCount(status.requests.total)} in all`,
  },
  {
    label: '5xx',
    title: 'Requests answered with a status from 500 on, a second, over the last ten seconds',
    value: view => formatPerSecond(failures(view)),
    below: view => {
      const all = recentRate(view, requestsIn)
      return all ? `${formatShare((failures(view) ?? 0) / all)} of requests` : 'no requests'
    },
    tone: view => toneOf(failures(view), 'bad'),
  },
  {
    label: 'p99',
    title: 'Of a hundred requests of the last two seconds, 99 took less time than this',
    value: ({ samples }) => formatMs(samples.at(-1)?.p99_ms),
    below: ({ samples }) => `p50 ${formatMs(samples.at(-1)?.p50_ms)}`,
  },
  {
    label: 'In flight',
    title: 'Requests that have begun and have not ended',
    value: ({ status }) => formatCount(status.requests.in_flight),
    below: ({ status: { connections } }) =>
      `${formatCount(connections)} connection${connections === 1 ? '' : 's'}`,
  },
  {
    label: 'Waiting',
    title: 'Requests, writes and passwords that wait for their turn',
    value: ({ status: { queues } }) =>
      formatCount(queues.requests + queues.writes + queues.passwords),
    below: ({ status: { queues } }) => {
      const [longest] = Object.entries(queues).toSorted(([, one], [, other]) => other - one)
      return longest === undefined || longest[1] === 0 ? 'nothing' : `most: ${longest[0]}`
    },
  },
  {
    label: 'Shed',
    title: 'Requests that were refused because the service was overloaded',
    value: view => formatPerSecond(shed(view)),
    below: ({ status }) => `${formatCount(status.requests.shed)} in all`,
    tone: view => toneOf(shed(view), 'bad'),
  },
  {
    label: 'Refused',
    title: 'Requests that rules refused, a second, over the last ten seconds',
    value: view => formatPerSecond(refused(view)),
    below: view =>
      `dry runs ${formatRate(recentRate(view, sample => sample.would_refuse))}${GAP}/s`,
    tone: view => toneOf(refused(view), 'warn'),
  },
  {
    label: 'Bans',
    title: 'Bans in force',
    value: ({ status }) => formatCount(status.bans),
    below: ({ status: { limits } }) => {
      if (limits.rules.length === 0) return 'no rules'
      if (limits.store === 'none') return 'no counting'
      return limits.up ? `in ${limits.store}` : `${limits.store} is down`
    },
    tone: ({ status }) => (status.limits.up ? undefined : 'bad'),
  },
]

/** The row of numbers at the top. */
export function Tiles({ view }: { readonly view: View | undefined }) {
  return (
    <dl class="tiles" id="tiles">
      {TILES.map(({ label, title, value, below, tone }) => {
        const [number, ...unit] = view === undefined ? [NONE] : value(view).split(GAP)
        return (
          <div class="tile" key={label} title={title}>
            <dt>{label}</dt>
            <dd data-tone={view && tone?.(view)}>
              <span class="value">
                <span class="number">{number}</span>
                <span class="faint">{unit.map(part => `${GAP}${part}`)}</span>
              </span>
              <span class="below">{view === undefined ? GAP : below(view)}</span>
            </dd>
          </div>
        )
      })}
    </dl>
  )
}
