import type { HistorySample } from '../../src/ops/management/service-status.ts'
import { type Chart, type ChartOptions, createChart } from './chart.ts'
import { byId } from './dom.ts'
import {
  formatCount,
  formatMinute,
  formatMs,
  formatRate,
  formatShare,
  GAP,
  NONE,
} from './format.ts'
import { requestsIn, type View } from './state.ts'
import { createTable } from './table.ts'

const LARGE = 210
const SMALL = 120

const ofClass = (name: string) => (sample: HistorySample) =>
  (sample.by_status[name] ?? 0) / sample.seconds

const rate = (value: number | null | undefined) => formatRate(value ?? undefined)
const share = (value: number | null | undefined) => formatShare(value ?? undefined)
const count = (value: number | null | undefined) =>
  value === null || value === undefined ? NONE : formatCount(value)

/** Powers of ten. */
const formatMsTick = (ms: number) => (ms >= 1000 ? `${ms / 1000}${GAP}s` : `${ms}${GAP}ms`)

const CHARTS: readonly ChartOptions[] = [
  {
    title: 'Requests',
    unit: 'a second, by status',
    isStacked: true,
    series: [
      { label: 'aborted', color: 'aborted', value: ofClass('aborted') },
      { label: '5xx', color: 'failed', value: ofClass('5xx') },
      { label: '4xx', color: 'rejected', value: ofClass('4xx') },
      { label: '3xx', color: 'unchanged', value: ofClass('3xx') },
      { label: '2xx', color: 'served', value: ofClass('2xx') },
    ],
    format: rate,
    minTop: 10,
    height: LARGE,
  },
  {
    title: 'Latency',
    unit: 'of requests, logarithmic',
    isLogarithmic: true,
    series: [
      { label: 'p99', color: 'slowest', value: ({ p99_ms }) => p99_ms },
      { label: 'p90', color: 'slower', value: ({ p90_ms }) => p90_ms },
      { label: 'p50', color: 'middle', value: ({ p50_ms }) => p50_ms },
    ],
    format: formatMs,
    formatTick: formatMsTick,
    minTop: 1,
    height: LARGE,
  },
  {
    title: 'Refused',
    unit: 'a second',
    series: [
      { label: 'dry runs', color: 'tried', value: one => one.would_refuse / one.seconds },
      { label: 'by rules', color: 'rejected', value: one => one.refused / one.seconds },
      { label: 'shed', color: 'failed', value: one => one.shed / one.seconds },
    ],
    format: rate,
    minTop: 4,
    height: SMALL,
  },
  {
    title: 'Queues',
    unit: 'waiting',
    series: [
      { label: 'passwords', color: 'slower', value: ({ queues }) => queues.passwords },
      { label: 'writes', color: 'unchanged', value: ({ queues }) => queues.writes },
      { label: 'requests', color: 'served', value: ({ queues }) => queues.requests },
    ],
    format: count,
    minTop: 4,
    height: SMALL,
  },
  {
    title: 'Processor',
    unit: '100 % is one core',
    formatTick: share,
    series: [{ label: 'all processes', color: 'served', value: ({ cpu }) => cpu }],
    format: share,
    minTop: 0.25,
    height: SMALL,
  },
]

/** The charts, and below them a table with the same numbers by minute. */
export function createCharts() {
  const host = byId('charts')
  const charts: readonly Chart[] = CHARTS.map(options => createChart(host, options))
  const numbers = byId<HTMLDetailsElement>('numbers')
  const table = createTable<Minute>(numbers.querySelector('.host') as HTMLElement, {
    caption: 'The last 15 minutes, by minute',
    keyOf: ({ time }) => time,
    empty: 'No samples yet. The service takes one every two seconds.',
    columns: [
      { label: 'Minute', kind: 'name', text: ({ time }) => time },
      { label: 'Requests/s', kind: 'number', text: one => rate(one.rate(requestsIn)) },
      ...['2xx', '3xx', '4xx', '5xx', 'aborted'].map(name => ({
        label: name,
        kind: 'number' as const,
        text: (one: Minute) => formatCount(one.sum(({ by_status }) => by_status[name] ?? 0)),
      })),
      ...(['p50_ms', 'p90_ms', 'p99_ms'] as const).map(name => ({
        label: `Highest ${name.slice(0, 3)}`,
        kind: 'number' as const,
        text: (one: Minute) => formatMs(one.highest(sample => sample[name])),
      })),
      { label: 'Refused', kind: 'number', text: one => formatCount(one.sum(s => s.refused)) },
      { label: 'Dry runs', kind: 'number', text: one => formatCount(one.sum(s => s.would_refuse)) },
      { label: 'Shed', kind: 'number', text: one => formatCount(one.sum(s => s.shed)) },
      { label: 'Most waiting', kind: 'number', text: one => count(one.highest(waitingIn)) },
      {
        label: 'Processor',
        kind: 'number',
        text: one => share(one.rate(({ cpu, seconds }) => cpu * seconds)),
      },
    ],
  })
  let shown: View | undefined
  const showNumbers = () => {
    if (shown !== undefined && numbers.open) table.update(minutesOf(shown.samples))
  }
  numbers.addEventListener('toggle', showNumbers)
  return {
    update: (view: View) => {
      shown = view
      for (const chart of charts) chart.update(view.samples, view.now)
      showNumbers()
    },
  }
}

interface Minute {
  readonly time: string
  sum(numberIn: (sample: HistorySample) => number): number
  rate(numberIn: (sample: HistorySample) => number): number
  highest(numberIn: (sample: HistorySample) => number | null): number | null
}

function waitingIn({ queues }: HistorySample): number {
  return queues.requests + queues.writes + queues.passwords
}

/** The newest minute first. */
function minutesOf(samples: readonly HistorySample[]): readonly Minute[] {
  const minutes = new Map<string, HistorySample[]>()
  for (const sample of samples.toReversed()) {
    const time = formatMinute(Date.parse(sample.at))
    const known = minutes.get(time)
    if (known === undefined) minutes.set(time, [sample])
    else known.push(sample)
  }
  return [...minutes].map(([time, within]) => {
    const sum: Minute['sum'] = numberIn => within.reduce((all, one) => all + numberIn(one), 0)
    return {
      time,
      sum,
      rate: numberIn => sum(numberIn) / sum(({ seconds }) => seconds),
      highest: numberIn => {
        const numbers = within.map(numberIn).filter(number => number !== null)
        return numbers.length === 0 ? null : Math.max(...numbers)
      },
    }
  })
}
