import { z } from 'zod'

const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)(?:(:\d\d)(?:[.,](\d+))?)?(?:Z|([+ -]\d\d):?(\d\d)?)$/

/**
 * Adds missing seconds and missing minutes of the offset, and changes a decimal comma to a point. A plus that was not
 * percent-encoded arrives as a space, and is changed back.
 */
function completeInstant(text: string): string {
  const [, start, seconds = ':00', fraction, hours, minutes = '00'] = INSTANT.exec(text) ?? []
  if (start === undefined) return text
  const offset = hours === undefined ? 'Z' : `${hours.replace(' ', '+')}:${minutes}`
  return `${start}${seconds}${fraction === undefined ? '' : `.${fraction}`}${offset}`
}

/** The range of times that can be shown: years of four digits. */
export const MIN_SHOWN_MS = Date.parse('0000-01-01T00:00:00.000Z')
export const MAX_SHOWN_MS = Date.parse('9999-12-31T23:59:59.999Z')

export const NO_INSTANT = 'must be an ISO 8601 instant with Z or an offset'

/** A schema for ISO 8601 instants. Its output is text for `instantMs`. */
export function instantText() {
  return z
    .string(NO_INSTANT)
    .overwrite(completeInstant)
    .pipe(z.iso.datetime({ offset: true, error: NO_INSTANT }))
}

/** Milliseconds since the epoch of an output of `instantText`, rounded down. */
export function instantMs(text: string): number {
  return Date.parse(text.replace(/(\.\d{3})\d+/, '$1'))
}
