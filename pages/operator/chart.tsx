import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type UPlot from 'uplot'
import type { HistorySample } from '../../src/ops/management/service-status.ts'
import { formatClock, formatPlain, type Maybe } from './format.ts'
import type { View } from './state.ts'

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
  readonly format: (value: Maybe) => string
  /** On ticks of the axis. */
  readonly formatTick?: (value: number) => string
  /** Whether each series stands on the ones after it. The first one is then the topmost. */
  readonly isStacked?: boolean
  readonly isLogarithmic?: boolean
  /** The top of the axis is at least this. */
  readonly minTop: number
}

const SPAN_SECONDS = 15 * 60

/** Lines that share the moment that the reader points at. */
const SYNC_KEY = 'moment'

/** Longer than two samples: nothing is drawn there. */
const GAP_SECONDS = 5

/** The first line of a chart is solid, so that lines differ by more than their color. */
const DASHES = [[], [7, 4], [2, 3]]

/** A chart of the last 15 minutes, with a legend that has the values at the pointer, or else the newest ones. */
export function Chart({ options, view }: { options: ChartOptions; view: View | undefined }) {
  const { title, unit, series, format, isStacked } = options
  const canvas = useRef<HTMLDivElement>(null)
  const plot = useRef<UPlot>(null)
  /** When the samples that are drawn end, in seconds since the epoch. */
  const end = useRef(Date.now() / 1000)
  /** What the reader points at, in seconds since the epoch. */
  const [pointed, setPointed] = useState<number>()
  const samples = view?.samples ?? []

  useLayoutEffect(() => {
    const host = canvas.current as HTMLDivElement
    const made = new uPlot(
      {
        ...plotOptions(options, host),
        scales: {
          x: { time: true, range: () => [end.current - SPAN_SECONDS, end.current] },
          y: options.isLogarithmic ? LOGARITHMIC : linearScale(options.minTop),
        },
        hooks: {
          setCursor: [
            ({ cursor: { idx, left = -1 }, data }) =>
              setPointed(left < 0 || idx == null ? undefined : data[0][idx]),
          ],
        },
      },
      [[], ...series.map(() => [])],
      host,
    )
    plot.current = made
    new ResizeObserver(() => {
      const { clientWidth: width, clientHeight: height } = host
      if (width > 0 && width !== made.width) made.setSize({ width, height })
    }).observe(host)
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => made.redraw())
  }, [])

  useLayoutEffect(() => {
    if (view === undefined) return
    end.current = view.now / 1000
    plot.current?.setData(dataOf(view.samples, options) as UPlot.AlignedData)
  }, [view])

  const shown =
    samples.find(({ at }) => pointed !== undefined && Date.parse(at) === pointed * 1000) ??
    samples.at(-1)
  const legend = series.map(({ label, color, value }, index) => (
    <li key={label}>
      <i
        class={isStacked ? 'swatch' : `swatch line-${index}`}
        style={{ color: `var(--${color})` }}
      />
      <span>{label}</span>
      <b>{format(shown && value(shown))}</b>
    </li>
  ))
  return (
    <figure class="panel chart">
      <figcaption>
        <h3>
          {title}
          <span class="faint"> {unit}</span>
        </h3>
        <span class="moment">{pointed === undefined ? 'latest' : formatClock(pointed * 1000)}</span>
      </figcaption>
      <div class="plot" role="img" aria-label={describe(options, samples)} ref={canvas} />
      <ul class="legend" aria-hidden="true">
        {legend.toReversed()}
      </ul>
    </figure>
  )
}

/** What is the same for a chart as long as it lives. */
function plotOptions(options: ChartOptions, host: HTMLElement): UPlot.Options {
  const { series, isStacked, isLogarithmic, formatTick = formatPlain } = options
  const colorOf = (name: string) => {
    host.style.color = `var(--${name})`
    return getComputedStyle(host).color
  }
  const ticks = isLogarithmic ? { filter: keepPowersOfTen } : {}
  const axis = { stroke: () => colorOf('faint'), font: '11px system-ui, sans-serif' }
  const line = { stroke: () => colorOf('line'), width: 1 }
  return {
    width: 300,
    height: host.clientHeight,
    legend: { show: false },
    // At the right there is half of the last time.
    padding: [8, 20, 0, 0],
    cursor: {
      sync: { key: SYNC_KEY },
      drag: { x: false, y: false },
      y: false,
      points: { size: 6 },
    },
    axes: [
      {
        ...axis,
        grid: { show: false },
        ticks: { ...line, size: 4 },
        values: '{HH}:{mm}',
        ...{ space: 60, size: 24, gap: 4 },
      },
      {
        ...axis,
        ...ticks,
        grid: { ...line, ...ticks },
        ticks: { show: false },
        ...{ size: 52, gap: 6, space: isLogarithmic ? 20 : 32 },
        values: (_plot, values) => values.map(tick => (tick === null ? null : formatTick(tick))),
      },
    ],
    series: [
      {},
      ...series.map(({ color }, index) => ({
        stroke: () => colorOf(color),
        ...(isStacked && { fill: () => colorOf(color) }),
        width: isStacked ? 0 : 1.5,
        dash: isStacked ? [] : (DASHES[index] ?? []),
        points: { show: false },
      })),
    ],
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
const LOGARITHMIC: UPlot.Scale = {
  distr: 3,
  range: (_plot, min, max) => [
    10 ** Math.min(-1, Math.floor(Math.log10(Math.max(min ?? 1, 0.001)))),
    10 ** Math.max(2, Math.ceil(Math.log10(Math.max(max ?? 1, 0.001)))),
  ],
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
