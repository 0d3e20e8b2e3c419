/** Numbers and times as people read them. Value and unit are separated by `GAP`, so that a large number can have a small unit. */

/** A space that does not break. */
export const GAP = '\u00a0'

/** A number, unless there is none yet. */
export type Maybe = number | null | undefined

/** Where there is no value. */
export const NONE = '–'

const withDigits = (digits: number) =>
  new Intl.NumberFormat('en', { minimumFractionDigits: digits, maximumFractionDigits: digits })
const WHOLE = withDigits(0)
const ONE_DIGIT = withDigits(1)
const TWO_DIGITS = withDigits(2)

/** Exact below ten million. */
export function formatCount(count: Maybe): string {
  if (count == null) return NONE
  if (count < 1e7) return WHOLE.format(count)
  return count < 1e9
    ? `${ONE_DIGIT.format(count / 1e6)}${GAP}M`
    : `${TWO_DIGITS.format(count / 1e9)}${GAP}G`
}

const PLAIN = new Intl.NumberFormat('en')

/** With as many digits as it has. */
export function formatPlain(value: number): string {
  return PLAIN.format(value)
}

/** A number of events in some time. */
export function formatRate(rate: Maybe): string {
  if (rate == null) return NONE
  if (rate === 0) return '0'
  if (rate < 0.05) return '<0.1'
  return rate < 9.95 ? ONE_DIGIT.format(rate) : formatCount(rate)
}

/** The same with its unit. */
export function formatPerSecond(rate: Maybe): string {
  return rate == null ? NONE : `${formatRate(rate)}${GAP}/s`
}

/** Milliseconds. */
export function formatMs(ms: Maybe): string {
  if (ms == null) return NONE
  if (ms >= 999.5) return `${(ms < 9995 ? TWO_DIGITS : ONE_DIGIT).format(ms / 1000)}${GAP}s`
  const digits = ms < 0.995 ? TWO_DIGITS : ms < 9.95 ? ONE_DIGIT : WHOLE
  return `${digits.format(ms)}${GAP}ms`
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB']

export function formatBytes(bytes: number): string {
  let value = bytes
  let unit = 0
  while (value >= 1023.5 && unit < BYTE_UNITS.length - 1) {
    value /= 1024
    unit++
  }
  const digits = unit === 0 || value >= 99.95 ? WHOLE : ONE_DIGIT
  return `${digits.format(value)}${GAP}${BYTE_UNITS[unit]}`
}

/** A share of 1, such as of a processor core. */
export function formatShare(share: Maybe): string {
  if (share == null) return NONE
  const percent = share * 100
  if (percent > 0 && percent < 0.05) return `<0.1${GAP}%`
  return `${(percent === 0 || percent >= 9.95 ? WHOLE : ONE_DIGIT).format(percent)}${GAP}%`
}

const UNITS = [
  { name: 'd', seconds: 86_400 },
  { name: 'h', seconds: 3600 },
  { name: 'min', seconds: 60 },
  { name: 's', seconds: 1 },
] as const

/** A length of time by its two largest units, such as `3 h 12 min`; one from a minute to ten has its seconds. */
export function formatSpan(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000))
  const at = UNITS.findIndex(unit => seconds >= unit.seconds)
  const unit = UNITS[at] ?? UNITS[3]
  const large = Math.floor(seconds / unit.seconds)
  const next = UNITS[at + 1]
  const small = next === undefined ? 0 : Math.floor((seconds % unit.seconds) / next.seconds)
  const isFine = next !== undefined && small > 0 && !(next.name === 's' && large >= 10)
  const text = `${large}${GAP}${unit.name}`
  return isFine ? `${text}${GAP}${small}${GAP}${next.name}` : text
}

const CLOCK = new Intl.DateTimeFormat('en-GB', {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
})
const MINUTE = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' })
const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

/** The time of day with seconds, in the time zone of the reader. */
export function formatClock(at: number): string {
  return CLOCK.format(at)
}

/** The time of day, with the day unless that is today. */
export function formatMoment(at: number, now: number): string {
  const day = DAY.format(at)
  return day === DAY.format(now) ? CLOCK.format(at) : `${day} ${MINUTE.format(at)}`
}
