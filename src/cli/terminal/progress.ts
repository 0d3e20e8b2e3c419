import type { OutputStream } from './terminal.ts'

/** Shows the progress of a long command. */
export interface Progress {
  /**
   * `done` units are done; `share` is the part of the whole, from 0 to 1, if it is known. Another unit than that of the last
   * update begins a step with a rate and a remaining time of its own.
   */
  update(done: number, share?: number, unit?: string): void
  /** Shows a step without a count, on a terminal. */
  tell(what: string): void
  /** Clears the bar. */
  end(): void
}

export interface ProgressOptions {
  /** What is counted, for example `rows`. */
  readonly unit: string
  /** In milliseconds. */
  readonly monotonicNow?: () => number
}

const REDRAW_MS = 100

const LINE_MS = 5000

const BAR_CHARS = 24

/** Moves the cursor to the start of the line and clears the line. */
const CLEAR_LINE = '\r\x1b[2K'

/**
 * On standard error, so that the output of the command stays clean. A terminal gets a bar, anything else a line every
 * `LINE_MS`. Shows nothing until the first update is due.
 */
export function createProgress(
  { stderr }: { readonly stderr: Pick<OutputStream, 'write' | 'isTTY'> },
  { unit: firstUnit, monotonicNow = () => performance.now() }: ProgressOptions,
): Progress {
  const isTerminal = stderr.isTTY === true
  let startedAt = monotonicNow()
  let shownAt = startedAt
  let currentUnit = firstUnit

  function end(): void {
    if (isTerminal) stderr.write(CLEAR_LINE)
  }

  return {
    update: (done, share, unit = firstUnit) => {
      const now = monotonicNow()
      if (unit !== currentUnit) {
        end()
        currentUnit = unit
        startedAt = now
        shownAt = now
      }
      if (now - shownAt < (isTerminal ? REDRAW_MS : LINE_MS)) return
      shownAt = now
      const seconds = (now - startedAt) / 1000
      const parts = [
        share !== undefined && `${Math.floor(share * 100)} %`,
        `${grouped(done)} ${unit}`,
        `${grouped(done / seconds)} ${unit}/s`,
        share !== undefined && share > 0 && `${inWords((seconds / share) * (1 - share))} left`,
      ]
      const text = parts.filter(part => part !== false).join(', ')
      if (!isTerminal) stderr.write(`${text}\n`)
      else stderr.write(`${CLEAR_LINE}${share === undefined ? '' : `${bar(share)} `}${text}`)
    },
    tell: what => {
      if (isTerminal) stderr.write(`${CLEAR_LINE}${what}`)
    },
    end,
  }
}

function bar(share: number): string {
  const full = Math.floor(Math.min(1, share) * BAR_CHARS)
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_CHARS - full)}]`
}

/** Rounds a number and marks its thousands: `12,345`. */
export function grouped(count: number): string {
  return Math.round(count).toLocaleString('en')
}

/** For example `45 s`, `3 min 5 s` or `2 h 10 min`. */
export function inWords(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
