import type { HistorySample } from '../../src/ops/management/service-status.ts'
import { Chart, type ChartOptions } from './chart.tsx'
import { formatCount, formatMs, formatRate, formatShare, GAP } from './format.ts'
import type { View } from './state.ts'

const ofClass = (name: string) => (sample: HistorySample) =>
  (sample.by_status[name] ?? 0) / sample.seconds

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
    format: formatRate,
    minTop: 10,
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
  },
  {
    title: 'Refused',
    unit: 'a second',
    series: [
      { label: 'dry runs', color: 'tried', value: one => one.would_refuse / one.seconds },
      { label: 'by rules', color: 'rejected', value: one => one.refused / one.seconds },
      { label: 'shed', color: 'failed', value: one => one.shed / one.seconds },
    ],
    format: formatRate,
    minTop: 4,
  },
  {
    title: 'Queues',
    unit: 'waiting',
    series: [
      { label: 'passwords', color: 'slower', value: ({ queues }) => queues.passwords },
      { label: 'writes', color: 'unchanged', value: ({ queues }) => queues.writes },
      { label: 'requests', color: 'served', value: ({ queues }) => queues.requests },
    ],
    format: formatCount,
    minTop: 4,
  },
  {
    title: 'Processor',
    unit: '100 % is one core',
    formatTick: formatShare,
    series: [{ label: 'this process', color: 'served', value: ({ cpu }) => cpu }],
    format: formatShare,
    minTop: 0.25,
  },
]

/** The charts of the last 15 minutes. */
export function Charts({ view }: { readonly view: View | undefined }) {
  return (
    <section class="charts" id="charts" aria-labelledby="charts-title">
      <h2 class="unseen" id="charts-title">
        The last 15 minutes
      </h2>
      {CHARTS.map(options => (
        <Chart key={options.title} {...{ options, view }} />
      ))}
    </section>
  )
}
