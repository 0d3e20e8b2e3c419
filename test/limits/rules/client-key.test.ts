import { expect, test } from 'vitest'
import { namedKey, possibleKeys } from '../../../src/limits/rules/client-key.ts'
import type { Key } from '../../../src/limits/rules/limits-file.ts'

const LONG = 'x'.repeat(5000)
const BOTH: Key = ['ip', 'header:A']

test.each<[Key, string, string | undefined]>([
  ['ip', '2001:DB8:0:1AB::3', '2001:db8:0:100::/56'],
  ['ip', '::ffff:198.51.100.7', '198.51.100.7'],
  ['ip', 'fe80::1%eth0', 'fe80::/56'],
  ['header:X-Api-Key', '2001:db8::1', '2001:db8::1'],
  ['host', 'WWW.Example.co.uk.', 'www.example.co.uk'],
  ['domain', 'WWW.Example.co.uk', 'example.co.uk'],
  [() => 'x', 'a\nb', 'a\nb'],
  [BOTH, '["2001:db8::1", "one"]', '["2001:db8::/56","one"]'],
  [['ip'], '2001:db8::1', '2001:db8::/56'],
  ['header:A', '', undefined],
  ['ip', '198.51.100.0/24', undefined],
  ['ip', '2001:db8:0:1ab::/56', undefined],
  [BOTH, '["198.51.100.1","a","b"]', undefined],
  [BOTH, '["198.51.100.1",""]', undefined],
  [BOTH, '["198.51.100.1",1]', undefined],
])(
  'a client that an operator names for the key %j as %j is %j in the store',
  (key, name, stored) => {
    expect(namedKey(key, name)).toBe(stored)
  },
)

test.each<[Key, string]>([
  ['header:A', LONG],
  [BOTH, '["2001:db8::/56","one"]'],
  [['header:A', 'header:B'], ' [ "\\u006fne" , "two" ] '],
  [['ip', 'header:Authorization'], '["2001:DB8:0:0::1","Bearer one"]'],
  [BOTH, JSON.stringify(['2001:DB8::1', LONG])],
])('a ban by %j is found by the name of its client, in any spelling', (key, name) => {
  expect(possibleKeys(name)).toContain(namedKey(key, name))
})
