import { z } from 'zod'

const INSTANT = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d)?(?:[.,](\d+))?(?:Z|([+ -]\d\d):?(\d\d)?)$/

/** Seconds, a comma and minutes of an offset may be left to be understood; and a plus that nobody encoded is a space. */
function inFullForm(text: string): string {
  const [, start, seconds = ':00', fraction, hours, minutes = '00'] = INSTANT.exec(text) ?? []
  if (start === undefined) return text
  const offset = hours === undefined ? 'Z' : `${hours.replace(' ', '+')}:${minutes}`
  return `${start}${seconds}${fraction === undefined ? '' : `.${fraction}`}${offset}`
}

export const NO_INSTANT = 'must be an ISO 8601 instant with Z or an offset'

/** The text of an ISO 8601 instant, in a form that `Date.parse` understands once its fraction has three digits. */
export function instantText() {
  return z
    .string(NO_INSTANT)
    .overwrite(inFullForm)
    .pipe(z.iso.datetime({ offset: true, error: NO_INSTANT }))
}

/** Milliseconds since the epoch of what `instantText` took; what is finer is cut off. */
export function instantMs(text: string): number {
  return Date.parse(text.replace(/(\.\d{3})\d+/, '$1'))
}
