import { expect, test } from 'vitest'
import { namedKey, possibleKeys } from '../../../src/limits/rules/client-key.ts'
import { namedDigest } from '../../../src/limits/rules/credential-digest.ts'
import type { Key } from '../../../src/limits/rules/limits-file.ts'

const LONG = 'x'.repeat(5000)

test.each<[string, Key | undefined, string, string | undefined]>([
  ['an IPv4 address', undefined, '198.51.100.1', '198.51.100.1'],
  ['IPv6 by its network', 'ip', '2001:DB8:0:1AB::3', '2001:db8:0:100::/56'],
  ['the network as it is listed', 'ip', '2001:db8:0:100::/56', '2001:db8:0:100::/56'],
  ['IPv4 within IPv6', 'ip', '::ffff:198.51.100.7', '198.51.100.7'],
  ['IPv6 of an interface', 'ip', 'fe80::1%eth0', 'fe80::/56'],
  ['a header', 'header:X-Api-Key', 'One Two', 'One Two'],
  ['a header like an address', 'header:X-Api-Key', '2001:db8::1', '2001:db8::1'],
  ['an API key', 'key', 'web', 'web'],
  ['a host', 'host', 'WWW.Example.co.uk.', 'www.example.co.uk'],
  ['a domain by any host of it', 'domain', 'WWW.Example.co.uk', 'example.co.uk'],
  ['what a function gives', () => 'x', 'a\nb', 'a\nb'],
  ['several', ['ip', 'header:A'], '["2001:db8::1", "one"]', '["2001:db8::/56","one"]'],
  ['one in a list', ['ip'], '2001:db8::1', '2001:db8::/56'],
  ['no text', 'header:A', '', undefined],
  ['no address', 'ip', 'ann', undefined],
  ['an address with more behind it', 'ip', '198.51.100.1 ', undefined],
  ['another range', 'ip', '198.51.100.0/24', undefined],
  ['another network', 'ip', '2001:db8::/32', undefined],
  ['a malformed network', 'ip', '2001:db8:0:1ab::/56', undefined],
  ['one of several', ['ip', 'header:A'], '198.51.100.1', undefined],
  ['too few of several', ['ip', 'header:A'], '["198.51.100.1"]', undefined],
  ['too many of several', ['ip', 'header:A'], '["198.51.100.1","a","b"]', undefined],
  ['several, one of them wrong', ['ip', 'header:A'], '["ann","one"]', undefined],
  ['several, one of them empty', ['ip', 'header:A'], '["198.51.100.1",""]', undefined],
  ['several, one of them no text', ['ip', 'header:A'], '["198.51.100.1",1]', undefined],
])('namedKey of %s', (_what, key, name, expected) => {
  expect(namedKey(key, name)).toBe(expected)
})

test('namedKey shortens a long key, like the key of a request', () => {
  expect(namedKey('header:A', LONG)).toMatch(/^[\w-]{43}$/)
  expect(possibleKeys(LONG)).toContain(namedKey('header:A', LONG))
})

test.each([
  ['2001:db8::1', ['2001:db8::1', '2001:db8::/56']],
  ['"a\\nb"', ['"a\\nb"', 'a\nb']],
  ['"', ['"']],
  ['', ['']],
])('possibleKeys of %j', (name, expected) => {
  expect(possibleKeys(name)).toEqual([...expected, namedDigest(name)])
})

test.each<[string, Key, string]>([
  ['as it is listed', ['ip', 'header:A'], '["2001:db8::/56","one"]'],
  ['with spaces', ['header:A', 'header:B'], ' [ "one" , "two" ] '],
  ['with other escapes', ['header:A', 'header:B'], '["\\u006fne","two"]'],
  ['with another spelling of IPv6', ['ip', 'header:A'], '["2001:DB8:0:0::1", "one"]'],
  ['with a credential', ['ip', 'header:Authorization'], '["2001:DB8::1","Bearer one"]'],
  ['of many characters', ['ip', 'header:A'], JSON.stringify(['2001:DB8::1', LONG])],
])('possibleKeys finds a client of a compound key %s', (_what, key, name) => {
  expect(possibleKeys(name)).toContain(namedKey(key, name))
})
