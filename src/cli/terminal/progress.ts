import type { OutputStream } from './terminal.ts'

/** Shows the progress of a long command. */
export interface Progress {
  /** `done` units are done; `share` is the part of the whole, from 0 to 1, if it is known. */
  update(done: number, share?: number): void
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
  { unit, monotonicNow = () => performance.now() }: ProgressOptions,
): Progress {
  const startedAt = monotonicNow()
  let shownAt = startedAt
  const draw = (text: string) => {
    if (stderr.isTTY) stderr.write(`${CLEAR_LINE}${text}`)
  }
  return {
    update: (done, share) => {
      const now = monotonicNow()
      if (now - shownAt < (stderr.isTTY ? REDRAW_MS : LINE_MS)) return
      shownAt = now
      const seconds = (now - startedAt) / 1000
      const parts = [
        share !== undefined && `${Math.floor(share * 100)} %`,
        `${grouped(done)} ${unit}`,
        `${grouped(done / seconds)} ${unit}/s`,
        share !== undefined && share > 0 && `${inWords((seconds / share) * (1 - share))} left`,
      ]
      const text = parts.filter(part => part !== false).join(', ')
      if (!stderr.isTTY) stderr.write(`${text}\n`)
      else draw(share === undefined ? text : `${bar(share)} ${text}`)
    },
    tell: draw,
    end: () => draw(''),
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
