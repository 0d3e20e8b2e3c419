import { useLayoutEffect, useRef } from 'preact/hooks'
import type UPlot from 'uplot'
import type { HistorySample } from '../../src/ops/management/status-history.ts'
import {
  formatClock,
  formatCount,
  formatMs,
  formatPerSecond,
  formatShare,
  type Maybe,
} from './format.ts'
import type { View, ViewProps } from './panel.tsx'

declare const uPlot: typeof UPlot

interface ChartOptions {
  readonly title: string
  readonly format: (value: Maybe) => string
  /** The top of the axis is at least this. */
  readonly minTop: number
  readonly series: readonly Series[]
}

interface Series {
  readonly label: string
  /** Has a contrast of at least 3:1 with light and dark panels. */
  readonly color: string
  readonly value: (sample: HistorySample) => number | null
}

const ofClass = (name: string) => (sample: HistorySample) =>
  (sample.by_status[name] ?? 0) / sample.seconds

const BLUE = '#4f8de6'
const TEAL = '#2f9dac'
const AMBER = '#bd800d'
const RED = '#e0483d'
const GRAY = '#86919d'

const CHARTS: readonly ChartOptions[] = [
  {
    title: 'Requests by status',
    format: formatPerSecond,
    minTop: 10,
    series: [
      { label: '2xx', color: BLUE, value: ofClass('2xx') },
      { label: '3xx', color: TEAL, value: ofClass('3xx') },
      { label: '4xx', color: AMBER, value: ofClass('4xx') },
      { label: '5xx', color: RED, value: ofClass('5xx') },
      { label: 'aborted', color: GRAY, value: ofClass('aborted') },
    ],
  },
  {
    title: 'Latency',
    format: formatMs,
    minTop: 1,
    series: [
      { label: 'p50', color: TEAL, value: ({ p50_ms }) => p50_ms },
      { label: 'p90', color: BLUE, value: ({ p90_ms }) => p90_ms },
      { label: 'p99', color: AMBER, value: ({ p99_ms }) => p99_ms },
    ],
  },
  {
    title: 'Refused',
    format: formatPerSecond,
    minTop: 4,
    series: [
      { label: 'shed', color: RED, value: one => one.shed / one.seconds },
      { label: 'by rules', color: AMBER, value: one => one.refused / one.seconds },
      { label: 'dry runs', color: GRAY, value: one => one.would_refuse / one.seconds },
    ],
  },
  {
    title: 'Queues',
    format: formatCount,
    minTop: 4,
    series: [
      { label: 'requests', color: BLUE, value: ({ queues }) => queues.requests },
      { label: 'writes', color: TEAL, value: ({ queues }) => queues.writes },
      { label: 'passwords', color: AMBER, value: ({ queues }) => queues.passwords },
    ],
  },
  {
    title: 'Processor',
    format: formatShare,
    minTop: 1,
    series: [{ label: 'of one core', color: BLUE, value: ({ cpu }) => cpu }],
  },
]

/** The charts of the last 15 minutes. */
export function Charts({ view }: ViewProps) {
  return (
    <section class="charts" id="charts" aria-label="The last 15 minutes">
      {CHARTS.map(options => (
        <Chart key={options.title} {...{ options, view }} />
      ))}
    </section>
  )
}

const SPAN_SECONDS = 15 * 60

/** Lines differ by more than their color. */
const DASHES = [
  { dash: [], border: 'solid' },
  { dash: [7, 4], border: 'dashed' },
  { dash: [2, 3], border: 'dotted' },
] as const

const dashOf = (index: number) => DASHES[index % DASHES.length] ?? DASHES[0]

/** Lines, with a legend that has the values at the pointer, or else the newest ones. */
function Chart({ options, view }: ViewProps & { readonly options: ChartOptions }) {
  const canvas = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(null)

  useLayoutEffect(() => {
    const host = canvas.current as HTMLDivElement
    const made = new uPlot(plotOptions(options, host), undefined, host)
    plot.current = made
    const observer = new ResizeObserver(() => {
      const { clientWidth: width } = host
      if (width > 0 && width !== made.width) made.setSize({ width, height: HEIGHT })
    })
    observer.observe(host)
    return () => {
      observer.disconnect()
      made.destroy()
    }
  }, [])

  useLayoutEffect(() => {
    plot.current?.setData(dataOf(view, options))
  }, [view])

  return (
    <figure class="panel chart">
      <figcaption>{options.title}</figcaption>
      <div class="plot" role="img" aria-label={describe(options, view)} ref={canvas} />
    </figure>
  )
}

const HEIGHT = 150

function plotOptions({ series, format, minTop }: ChartOptions, host: HTMLElement): UPlot.Options {
  const axis = {
    stroke: () => getComputedStyle(host).color,
    font: '11px system-ui, sans-serif',
    ticks: { show: false },
  }
  return {
    width: 300,
    height: HEIGHT,
    // At the right there is half of the last time.
    padding: [8, 20, 0, 0],
    // All charts have the moment that the reader points at.
    cursor: { sync: { key: 'moment' }, drag: { x: false }, y: false },
    legend: { markers: { dash: (_plot, index) => dashOf(index - 1).border } },
    hooks: {
      setLegend: [
        plot => {
          const newest = plot.data[0].length - 1
          const isPointedAt = (plot.cursor.left ?? -1) >= 0
          if (!isPointedAt && newest >= 0) plot.setLegend({ idx: newest }, false)
        },
      ],
    },
    scales: {
      x: { time: true, range: (_plot, _min, end) => [end - SPAN_SECONDS, end] },
      y: { range: (_plot, _min, max) => [0, Math.max(minTop, (max ?? 0) * 1.08)] },
    },
    axes: [
      { ...axis, grid: { show: false }, values: '{HH}:{mm}', space: 60, size: 24 },
      {
        ...axis,
        grid: { stroke: '#8080804d', width: 1 },
        values: (_plot, ticks) => ticks.map(format),
        size: 64,
      },
    ],
    series: [
      { label: 'at', value: (_plot, at) => (at == null ? '' : formatClock(at * 1000)) },
      ...series.map(({ label, color }, index) => ({
        ...{ label, stroke: color, width: 1.5, dash: [...dashOf(index).dash] },
        points: { show: false },
        value: (_plot: UPlot, value: number | null) => format(value),
      })),
    ],
  }
}

/** The columns of uPlot: times in seconds since the epoch, and the values of each series. */
function dataOf({ samples }: View, { series }: ChartOptions): UPlot.AlignedData {
  const times = samples.map(({ at }) => Date.parse(at) / 1000)
  return [times, ...series.map(({ value }) => samples.map(value))]
}

/** What a chart shows, in words. */
function describe({ title, series, format }: ChartOptions, { samples }: View): string {
  const last = samples.at(-1)
  const parts = series.map(({ label, value }) => `${label} ${format(last && value(last))}`)
  return `${title} over the last 15 minutes, now: ${parts.join(', ')}`
}
