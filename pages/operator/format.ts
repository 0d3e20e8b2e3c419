/** Numbers and times as people read them. */

/** A number, unless there is none yet. */
export type Maybe = number | null | undefined

/** Where there is no value. */
const NONE = '–'

/** A space that does not break. */
const GAP = '\u00a0'

const WHOLE = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
/** One digit after the point, or two that are not 0. */
const FINE = new Intl.NumberFormat('en', {
  maximumFractionDigits: 1,
  maximumSignificantDigits: 2,
  roundingPriority: 'morePrecision',
})
const MOMENT = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
const CLOCK = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })

export function formatCount(count: Maybe): string {
  return count == null ? NONE : WHOLE.format(count)
}

/** A number of events in some time. */
export function formatRate(rate: Maybe): string {
  return rate == null ? NONE : FINE.format(rate)
}

/** The same with its unit. */
export const formatPerSecond = (rate: Maybe) => withUnit(rate, '/s')

/** Milliseconds. */
export const formatMs = (ms: Maybe) => withUnit(ms, 'ms')

export const formatBytes = (bytes: number) => withUnit(bytes / 1024 ** 2, 'MiB')

/** A share of 1, such as of a processor core. */
export function formatShare(share: Maybe): string {
  return withUnit(share == null ? share : share * 100, '%')
}

/** A length of time in one unit. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  if (seconds < 120) return withUnit(seconds, 's')
  if (seconds < 7200) return withUnit(Math.floor(seconds / 60), 'min')
  if (seconds < 172_800) return withUnit(Math.floor(seconds / 3600), 'h')
  return withUnit(Math.floor(seconds / 86_400), 'd')
}

/** The time of day with seconds, in the time zone of the reader. */
export const formatClock = (at: number) => CLOCK.format(at)

/** The date and the time of day, in the time zone of the reader. */
export const formatMoment = (at: string) => MOMENT.format(Date.parse(at))

function withUnit(value: Maybe, unit: string): string {
  return value == null ? NONE : `${FINE.format(value)}${GAP}${unit}`
}
