import type { HistorySample } from '../../src/ops/management/service-status.ts'
import { byId, element, setAttribute, setText } from './dom.ts'
import { formatCount, formatMs, formatRate, formatShare, GAP, NONE } from './format.ts'
import { recentRate, requestsIn, type View } from './state.ts'
import { type Tone, toneOf } from './table.ts'

interface Tile {
  readonly label: string
  /** What it means, for the reader who points at it. */
  readonly title: string
  value(view: View): string
  below(view: View): string
  tone?(view: View): Tone
}

const failed = (sample: HistorySample) => sample.by_status['5xx'] ?? 0

const rateOf = (view: View, numberIn: (sample: HistorySample) => number) =>
  recentRate(view.samples, numberIn)

const TILES: readonly Tile[] = [
  {
    label: 'Requests',
    title: 'Requests that ended, a second, over the last ten seconds',
    value: view => perSecond(rateOf(view, requestsIn)),
    below: ({ status }) => `${formatCount(status.requests.total)} in all`,
  },
  {
    label: '5xx',
    title: 'Requests answered with a status from 500 on, a second, over the last ten seconds',
    value: view => perSecond(rateOf(view, failed)),
    below: view => {
      const all = rateOf(view, requestsIn)
      const share = all ? (rateOf(view, failed) ?? 0) / all : undefined
      return share === undefined ? 'no requests' : `${formatShare(share)} of requests`
    },
    tone: view => toneOf(rateOf(view, failed), 'bad'),
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
    below: ({ status }) => plural(status.connections, 'connection'),
  },
  {
    label: 'Waiting',
    title: 'Requests, writes and passwords that wait for their turn',
    value: ({ status }) => {
      const { requests, writes, passwords } = status.queues
      return formatCount(requests + writes + passwords)
    },
    below: ({ status }) => describeQueues(status.queues),
  },
  {
    label: 'Shed',
    title: 'Requests that were refused because the service was overloaded',
    value: view => perSecond(rateOf(view, ({ shed }) => shed)),
    below: ({ status }) => `${formatCount(status.requests.shed)} in all`,
    tone: view =>
      toneOf(
        rateOf(view, ({ shed }) => shed),
        'bad',
      ),
  },
  {
    label: 'Refused',
    title: 'Requests that rules refused, a second, over the last ten seconds',
    value: view => perSecond(rateOf(view, ({ refused }) => refused)),
    below: view => `dry runs ${formatRate(rateOf(view, sample => sample.would_refuse))}${GAP}/s`,
    tone: view =>
      toneOf(
        rateOf(view, ({ refused }) => refused),
        'warn',
      ),
  },
  {
    label: 'Bans',
    title: 'Bans in force',
    value: ({ status }) => formatCount(status.bans),
    below: ({ status }) => {
      const { store, up } = status.limits
      return store === 'none' ? 'no counting' : up ? `in ${store}` : `${store} is down`
    },
    tone: ({ status }) => (status.limits.up ? undefined : 'bad'),
  },
]

/** The row of numbers at the top. */
export function createTiles() {
  const rows = TILES.map(tile => {
    const number = element('span', { class: 'number' }, NONE)
    const unit = element('span', { class: 'unit' })
    const below = element('span', { class: 'below' }, GAP)
    const value = element('dd', {}, element('span', { class: 'value' }, number, unit), below)
    const label = element('dt', {}, tile.label)
    byId('tiles').append(element('div', { class: 'tile', title: tile.title }, label, value))
    return { tile, value, number, unit, below }
  })
  return {
    update: (view: View) => {
      for (const { tile, value, number, unit, below } of rows) {
        const [first = '', ...rest] = tile.value(view).split(GAP)
        setText(number, first)
        setText(unit, rest.length === 0 ? '' : GAP + rest.join(GAP))
        setText(below, tile.below(view))
        setAttribute(value, 'data-tone', tile.tone?.(view))
      }
    },
  }
}

function perSecond(rate: number | undefined): string {
  return rate === undefined ? NONE : `${formatRate(rate)}${GAP}/s`
}

function plural(count: number, noun: string): string {
  return `${formatCount(count)} ${noun}${count === 1 ? '' : 's'}`
}

/** Which queue is the longest. */
function describeQueues(queues: View['status']['queues']): string {
  const [longest = ['', 0]] = Object.entries(queues).toSorted(([, one], [, other]) => other - one)
  return longest[1] === 0 ? 'nothing' : `most: ${longest[0]}`
}
