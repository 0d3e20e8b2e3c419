import type { WriteStream } from 'node:tty'

/** Tells a person how far a long command is. */
export interface Progress {
  /** So much is done of what is counted; `share` says how much that is of all, from 0 to 1, where it is known. */
  update(done: number, share?: number): void
  /** Says what is being done, and for how long, where nothing is counted. */
  tell(what: string): void
  /** Takes away the bar. */
  end(): void
}

export interface ProgressOptions {
  /** What is counted, as in `rows`. */
  readonly unit: string
  /** Where a terminal is, a bar is drawn; elsewhere there are lines. */
  readonly stream?: Pick<WriteStream, 'write'> & { readonly isTTY?: boolean }
  /** Milliseconds of a clock that never goes back. */
  readonly monotonicNow?: () => number
}

const REDRAW_MS = 100

const LINE_MS = 5000

const BAR_CHARS = 24

/** Cursor to the start of the line, and all of the line away. */
const CLEAR_LINE = '\r\x1b[2K'

/** On standard error, so that it does not get into what a command prints. */
export function createProgress(options: ProgressOptions): Progress {
  const { unit, stream = process.stderr, monotonicNow = () => performance.now() } = options
  const isTerminal = stream.isTTY === true
  const startedAt = monotonicNow()
  let shownAt = startedAt

  /** Often enough to be seen to go on, and no more often. */
  function show(describeAt: (elapsedSeconds: number) => string): void {
    const now = monotonicNow()
    if (now - shownAt < (isTerminal ? REDRAW_MS : LINE_MS)) return
    shownAt = now
    const text = describeAt((now - startedAt) / 1000)
    stream.write(isTerminal ? `${CLEAR_LINE}${text}` : `${text}\n`)
  }

  return {
    update: (done, share) =>
      show(elapsedSeconds => {
        const text = describe({ done, share, unit, elapsedSeconds })
        return isTerminal && share !== undefined ? `${bar(share)} ${text}` : text
      }),
    tell: what => show(elapsedSeconds => `${what}, ${inWords(elapsedSeconds)}`),
    end: () => {
      if (isTerminal) stream.write(CLEAR_LINE)
    },
  }
}

interface State {
  readonly done: number
  readonly share: number | undefined
  readonly unit: string
  readonly elapsedSeconds: number
}

function describe({ done, share, unit, elapsedSeconds }: State): string {
  const parts = [
    share !== undefined && `${Math.floor(share * 100)} %`,
    `${grouped(done)} ${unit}`,
    `${grouped(done / elapsedSeconds)} ${unit}/s`,
    share !== undefined && share > 0 && `${inWords((elapsedSeconds / share) * (1 - share))} left`,
  ]
  return parts.filter(part => part !== false).join(', ')
}

function bar(share: number): string {
  const full = Math.floor(Math.min(1, share) * BAR_CHARS)
  return `[${'#'.repeat(full)}${'-'.repeat(BAR_CHARS - full)}]`
}

/** A whole number with its thousands marked. */
export function grouped(count: number): string {
  return Math.round(count).toLocaleString('en')
}

/** A time such as `45 s`, `3 min 5 s` or `2 h 10 min`. */
export function inWords(seconds: number): string {
  const whole = Math.ceil(seconds)
  if (whole < 60) return `${whole} s`
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`
}
