import { describe, expect, test } from 'vitest'
import { findUnknownSettings, nearest, unknownInWords } from '../../src/config/did-you-mean.ts'

test.each(['except', 'EXCEPT', 'xcept', 'excepts', 'axcept', 'excpet', 'xecept'])(
  'nearest finds "except" for %j',
  word => expect(nearest(word, ['within', 'except'])).toBe('except'),
)

test.each(['', 'exepct', 'expect', 'exceptfor'])('nearest finds nothing for %j', word => {
  expect(nearest(word, ['within', 'except'])).toBeUndefined()
})

test.each(['API_KEY', 'APIKEYS', 'API_KYES'])(
  '%s=required in the environment is a typo of API_KEYS, and with another value the key of another program',
  name => {
    const meant = { name, source: 'environment', didYouMean: 'API_KEYS' }
    expect(findUnknownSettings({ [name]: 'required' }, {}, ['API_KEYS'])).toEqual([meant])
    expect(findUnknownSettings({ [name]: 'sk-1234' }, {}, ['API_KEYS'])).toEqual([])
  },
)

describe('a setting that is gone', () => {
  const linesOf = (environment: Record<string, string>, dotenv: Record<string, string> = {}) =>
    findUnknownSettings(environment, dotenv, []).map(unknownInWords)
  const line =
    'WORKERS is no longer a setting: to use more cores, run the service several times on one database (docs/operations/deploy.md)'

  test('is told in one line with what to do instead, wherever it is set', () => {
    expect(linesOf({ WORKERS: '2' })).toEqual([line])
    expect(linesOf({}, { WORKERS: '2' })).toEqual([line])
    expect(linesOf({ WORKERS: '2' }, { WORKERS: '4' })).toEqual([line])
  })

  test('is not told if it is empty in the environment, nor if another is near it', () => {
    expect(linesOf({ WORKERS: '' })).toEqual([])
    expect(linesOf({ WORKER: '2' })).toEqual([])
  })
})
