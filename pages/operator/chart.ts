import type UPlot from 'uplot'
import type { HistorySample } from '../../src/ops/management/service-status.ts'
import { element, setAttribute, setText } from './dom.ts'
import { formatClock, formatPlain } from './format.ts'

declare const uPlot: typeof UPlot

export interface Series {
  readonly label: string
  /** A custom property of the style sheet. */
  readonly color: string
  readonly value: (sample: HistorySample) => number | null
}

export interface ChartOptions {
  readonly title: string
  readonly unit: string
  readonly series: readonly Series[]
  readonly format: (value: number | null | undefined) => string
  /** On ticks of the axis. */
  readonly formatTick?: (value: number) => string
  /** Whether each series stands on the ones after it. The first one is then the topmost. */
  readonly isStacked?: boolean
  readonly isLogarithmic?: boolean
  /** The top of the axis is at least this. */
  readonly minTop: number
  readonly height: number
}

export interface Chart {
  update(samples: readonly HistorySample[], now: number): void
}

const SPAN_SECONDS = 15 * 60

/** What the legend shows while the reader points at no other moment. */
const LATEST = 'latest'

/** Lines that share the moment that the reader points at. */
const SYNC_KEY = 'moment'

/** Longer than two samples: nothing is drawn there. */
const GAP_SECONDS = 5

/** A chart of the last 15 minutes, with a legend that has the values at the pointer, or else the newest ones. */
export function createChart(host: HTMLElement, options: ChartOptions): Chart {
  const { title, unit, series, format, height, formatTick = formatPlain } = options
  let samples: readonly HistorySample[] = []
  let times: readonly number[] = []
  let now = Date.now() / 1000
  const moment = element('span', { class: 'moment' }, LATEST)
  const values = series.map(() => element('b', {}, '–'))
  const legend = series.map(({ label, color }, index) =>
    element(
      'li',
      {},
      element('i', { class: `swatch ${color}` }),
      element('span', {}, label),
      values[index] ?? '',
    ),
  )
  const canvas = element('div', { class: 'plot', role: 'img', 'aria-label': title })
  host.append(
    element(
      'figure',
      { class: 'panel chart' },
      element(
        'figcaption',
        {},
        element('h3', {}, title, element('span', { class: 'faint' }, ` ${unit}`)),
        moment,
      ),
      canvas,
      element('ul', { class: 'legend', 'aria-hidden': 'true' }, ...legend.toReversed()),
    ),
  )

  const plot = new uPlot(plotOptions(), [[], ...series.map(() => [])], canvas)
  new ResizeObserver(() => resize()).observe(canvas)
  for (const query of ['(prefers-color-scheme: dark)', '(prefers-contrast: more)']) {
    matchMedia(query).addEventListener('change', () => plot.redraw())
  }

  function resize(): void {
    const width = Math.floor(canvas.clientWidth)
    if (width > 0 && width !== plot.width) plot.setSize({ width, height })
  }

  function showValues(): void {
    const at = plot.cursor.idx
    const isPointing = at !== null && at !== undefined && (plot.cursor.left ?? -1) >= 0
    const time = isPointing ? times[at] : undefined
    const sample =
      time === undefined ? samples.at(-1) : samples.find(one => Date.parse(one.at) === time * 1000)
    setText(moment, time === undefined ? LATEST : formatClock(time * 1000))
    for (const [index, { value }] of series.entries()) {
      const target = values[index]
      if (target !== undefined) setText(target, format(sample && value(sample)))
    }
  }

  function plotOptions(): UPlot.Options {
    const ticks = options.isLogarithmic ? { filter: keepPowersOfTen } : {}
    return {
      width: 300,
      height,
      legend: { show: false },
      padding: [8, 8, 0, 0],
      cursor: {
        sync: { key: SYNC_KEY },
        drag: { x: false, y: false },
        y: false,
        points: { size: 6 },
      },
      scales: {
        x: { time: true, range: () => [now - SPAN_SECONDS, now] },
        y: options.isLogarithmic ? logarithmicScale() : linearScale(options.minTop),
      },
      axes: [
        {
          stroke: () => colorOf('--faint'),
          font: '11px system-ui, sans-serif',
          grid: { show: false },
          ticks: { stroke: () => colorOf('--line'), size: 4, width: 1 },
          values: '{HH}:{mm}',
          space: 60,
          size: 24,
          gap: 4,
        },
        {
          stroke: () => colorOf('--faint'),
          font: '11px system-ui, sans-serif',
          grid: { stroke: () => colorOf('--line'), width: 1, ...ticks },
          ...ticks,
          ticks: { show: false },
          size: 52,
          gap: 6,
          space: options.isLogarithmic ? 20 : 32,
          values: (_plot, ticks) => ticks.map(tick => (tick === null ? null : formatTick(tick))),
        },
      ],
      series: [
        {},
        ...series.map(({ color }) => ({
          stroke: () => colorOf(`--${color}`),
          ...(options.isStacked && { fill: () => colorOf(`--${color}`) }),
          width: options.isStacked ? 0 : 1.5,
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [showValues] },
    }
  }

  return {
    update: (newest, nowMs) => {
      samples = newest
      now = nowMs / 1000
      const data = dataOf(newest, options)
      times = data[0] as readonly number[]
      plot.setData(data as UPlot.AlignedData)
      resize()
      showValues()
      setAttribute(canvas, 'aria-label', describe(options, newest))
    },
  }
}

/** Which ticks of a logarithmic axis get a line and a label. */
function keepPowersOfTen(_plot: UPlot, ticks: number[]): (number | null)[] {
  return ticks.map(tick => (Math.abs(Math.log10(tick) % 1) < 1e-9 ? tick : null))
}

function linearScale(minTop: number): UPlot.Scale {
  return { range: (_plot, _min, max) => [0, Math.max(minTop, (max ?? 0) * 1.08)] }
}

/** From a tenth of a millisecond to a hundred at least, by powers of ten. */
function logarithmicScale(): UPlot.Scale {
  return {
    distr: 3,
    range: (_plot, min, max) => [
      10 ** Math.min(-1, Math.floor(Math.log10(Math.max(min ?? 1, 0.001)))),
      10 ** Math.max(2, Math.ceil(Math.log10(Math.max(max ?? 1, 0.001)))),
    ],
  }
}

/** The columns of uPlot: times, and the values of each series, with an empty place wherever samples are missing. */
function dataOf(samples: readonly HistorySample[], { series, isStacked }: ChartOptions) {
  const times: number[] = []
  const columns: (number | null)[][] = series.map(() => [])
  for (const sample of samples) {
    const time = Date.parse(sample.at) / 1000
    const previous = times.at(-1)
    if (previous !== undefined && time - previous > sample.seconds + GAP_SECONDS) {
      times.push(previous + 0.001)
      for (const column of columns) column.push(null)
    }
    times.push(time)
    const values = series.map(({ value }) => value(sample))
    for (const [index, column] of columns.entries()) {
      const above = values.slice(index).reduce<number>((sum, one) => sum + (one ?? 0), 0)
      column.push(isStacked ? above : (values[index] ?? null))
    }
  }
  return [times, ...columns]
}

/** What a chart shows, in words. */
function describe(
  { title, unit, series, format }: ChartOptions,
  samples: readonly HistorySample[],
) {
  const last = samples.at(-1)
  const parts = series.map(({ label, value }) => {
    const highest = samples.reduce((top, sample) => Math.max(top, value(sample) ?? 0), 0)
    return `${label} ${format(last && value(last))}, at most ${format(highest)}`
  })
  return `${title}, ${unit}, over the last 15 minutes. ${parts.join('; ')}.`
}

function colorOf(property: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(property)
}
