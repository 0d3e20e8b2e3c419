import { expect, test } from 'vitest'
import { findUnknownSettings, nearest } from '../../src/config/did-you-mean.ts'

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
