/** Proactive negotiation by the Accept header: RFC 9110 12.5.1. */

import { ServiceError } from '../errors.ts'

export const JSON_TYPE = 'application/json'
export const PROBLEM_TYPE = 'application/problem+json'
export const HTML_TYPE = 'text/html'

interface MediaRange {
  readonly type: string
  readonly subtype: string
  /** From 0, not acceptable, to 1. */
  readonly quality: number
}

const ANYTHING: readonly MediaRange[] = [{ type: '*', subtype: '*', quality: 1 }]

const QUALITY = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/

/**
 * The media ranges of an Accept header. One that is absent, empty or malformed accepts anything.
 * Parameters of media types are ignored, because no type here comes in several forms.
 */
function parseAccept(header: string | undefined): readonly MediaRange[] {
  if (header === undefined || header === '*/*') return ANYTHING
  const ranges: MediaRange[] = []
  for (const { type, subtype, parameters } of parseMediaTypes(header) ?? []) {
    const quality = parameters.find(({ name }) => name === 'q')?.value ?? '1'
    if (!QUALITY.test(quality) || (type === '*' && subtype !== '*')) return ANYTHING
    ranges.push({ type, subtype, quality: Number(quality) })
  }
  return ranges.length === 0 ? ANYTHING : ranges
}

/** The quality that the most specific range gives to a type such as `text/html`; 0 if it is not acceptable. */
function qualityOf(preferences: readonly MediaRange[], mediaType: string): number {
  const [type, subtype] = mediaType.split('/')
  let specificity = -1
  let quality = 0
  for (const range of preferences) {
    if (range.type !== '*' && range.type !== type) continue
    if (range.subtype !== '*' && range.subtype !== subtype) continue
    const rangeSpecificity = Number(range.type !== '*') + Number(range.subtype !== '*')
    if (rangeSpecificity < specificity) continue
    quality = rangeSpecificity > specificity ? range.quality : Math.max(quality, range.quality)
    specificity = rangeSpecificity
  }
  return quality
}

/** Whether the client prefers a media type to JSON. */
export function prefersToJson(mediaType: string, header: string | undefined): boolean {
  if (header === undefined || header === '*/*' || header === JSON_TYPE) return false
  const preferences = parseAccept(header)
  return qualityOf(preferences, mediaType) > qualityOf(preferences, JSON_TYPE)
}

/**
 * The form that the client prefers to JSON, and to the others; the first of equal ones. A client that also accepts JSON must
 * name its media type: one that accepts anything may not understand it.
 */
export function askedInsteadOfJson<T extends { readonly type: string }>(
  forms: readonly T[],
  header: string = '*/*',
): T | undefined {
  const isNamed = (type: string) =>
    header.toLowerCase().includes(type) || !isAcceptable(header, [JSON_TYPE])
  const asked = forms.filter(({ type }) => prefersToJson(type, header) && isNamed(type))
  if (asked.length < 2) return asked[0]
  const preferences = parseAccept(header)
  const quality = ({ type }: T) => qualityOf(preferences, type)
  return asked.reduce((best, form) => (quality(form) > quality(best) ? form : best))
}

/** Whether a response of one of `types` is acceptable. A client that accepts only problem+json gets JSON too. */
export function isAcceptable(header: string, types: readonly string[]): boolean {
  const preferences = parseAccept(header)
  const known = types.includes(JSON_TYPE) ? [...types, PROBLEM_TYPE] : types
  return known.some(type => qualityOf(preferences, type) > 0)
}

/** A media type or range: RFC 9110 8.3.1 and 12.5.1. Names are in lower case. */
export interface MediaType {
  readonly type: string
  readonly subtype: string
  /** In the order of the header. Values are as sent, with or without quotes. */
  readonly parameters: readonly { readonly name: string; readonly value: string }[]
}

const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"

const VALUE = `${TOKEN}|"(?:[^"\\\\]|\\\\.)*"`

// Each blank matches in one way only, so that no header causes backtracking.
const MEMBER = new RegExp(
  `[ \\t]*(?:(${TOKEN})/(${TOKEN})[ \\t]*((?:;[ \\t]*(?:${TOKEN}=(?:${VALUE})[ \\t]*)?)*))?(?:,|$)`,
  'y',
)

const PARAMETER = new RegExp(`;[ \\t]*(${TOKEN})=(${VALUE})`, 'g')

/** The members of a comma list of media types, without empty ones; `undefined` if the list is malformed. */
export function parseMediaTypes(header: string): readonly MediaType[] | undefined {
  const types: MediaType[] = []
  MEMBER.lastIndex = 0
  while (MEMBER.lastIndex < header.length) {
    const member = MEMBER.exec(header)
    if (member === null) return undefined
    const [, type, subtype, parameters = ''] = member
    if (type === undefined || subtype === undefined) continue
    types.push({
      type: type.toLowerCase(),
      subtype: subtype.toLowerCase(),
      parameters: Array.from(parameters.matchAll(PARAMETER), ([, name = '', value = '']) => {
        return { name: name.toLowerCase(), value }
      }),
    })
  }
  return types
}

/** `not_acceptable`: the client accepts none of these types. */
export function notAcceptable(types: readonly string[]): ServiceError {
  return new ServiceError('not_acceptable', {
    message: `Only ${types.join(' or ')} is available`,
  })
}
