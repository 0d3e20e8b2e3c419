import { expect, test } from 'vitest'
import type { RedisLocation } from '../../src/config/redis-url.ts'
import { loadConfig } from '../../src/config/settings.ts'
import { NO_DOTENV, problemsOf } from '../support/problems-of.ts'

function nodes(...all: (readonly [string, number])[]) {
  return { nodes: all.map(([host, port]) => ({ host, port })) }
}

const PLAIN: Omit<RedisLocation, 'url'> = {
  ...nodes(['cache', 6379]),
  username: undefined,
  password: undefined,
  database: 0,
  isEncrypted: false,
}

const ANN = { username: 'ann', password: 'secret' }

test.each<[string, Partial<RedisLocation>]>([
  ['redis://cache', {}],
  ['redis://cache/15', { database: 15 }],
  ['rediss://cache', { isEncrypted: true }],
  ['redis://:secret@cache', { password: 'secret' }],
  ['redis://ann@cache', { username: 'ann' }],
  ['redis://ann:a%40b%2Fc:d%25@cache', { username: 'ann', password: 'a@b/c:d%' }],
  // With or without encoding.
  ['redis://:a #%2Cb%23@cache', { password: 'a #,b#' }],
  ['redis://[::1]:7000', nodes(['::1', 7000])],
  [
    'rediss://ann:secret@one:1,two,[::1]:3/0',
    { ...nodes(['one', 1], ['two', 6379], ['::1', 3]), ...ANN, isEncrypted: true },
  ],
  [
    'redis://:secret@one:1/0,redis://:secret@two:2/0',
    { ...nodes(['one', 1], ['two', 2]), password: 'secret', url: 'redis://***@one:1,two:2/0' },
  ],
])('REDIS_URL %s is understood', (url, different) => {
  const { redis } = loadConfig({ CACHE_STORE: 'redis', REDIS_URL: url }, NO_DOTENV)
  const shown = url.replaceAll(/\/\/[^@,]*@/g, '//***@')
  expect(redis).toEqual({ ...PLAIN, ...different, url: different.url ?? shown })
})

const MALFORMED = /it cannot be taken apart: .* must be percent-encoded/
const NO_NODE = /a node in it is not HOST, HOST:PORT or \[IPV6\]:PORT/
const NO_DATABASE = /only the number of a database may follow its host, and 0 in a Cluster/

test.each<[string, RegExp]>([
  ['redis://', NO_NODE],
  ['redis://cache:redis', MALFORMED],
  ['redis://::1', MALFORMED],
  ['redis://[cache]', MALFORMED],
  ['redis://cache:0', NO_NODE],
  ['redis://cache:65536', NO_NODE],
  ['redis://cache/first', NO_DATABASE],
  ['redis://cache/1?ssl_cert_reqs=none', NO_DATABASE],
  ['redis://:se/cret@cache', MALFORMED],
  ['redis://:se@cret@cache', MALFORMED],
  ['redis://:100%@cache', MALFORMED],
  ['redis://one/1,two', NO_DATABASE],
  ['redis://one,two/1', NO_DATABASE],
  ['redis://one,rediss://two', NO_DATABASE],
  ['redis://:a@one,redis://:b@two', MALFORMED],
  ['redis://ann:s3cret@one:1,redis://ann:s3cret@two:x', MALFORMED],
  ['redis://one,redis://ann:secret@two', /a comma in its user or password/],
  ['redis://h#x', NO_NODE],
  ['redis://h:6379/0;password=s3cret', NO_DATABASE],
  ['redis://h:6379/0&password=s3cret', NO_DATABASE],
  ['redis://h;password=s3cret:0', NO_NODE],
  ['redis://h/token=s3cret', NO_DATABASE],
  ['redis://[1.2.3.4]', MALFORMED],
])('REDIS_URL %s is refused in a line that says why, without its password', (url, why) => {
  const problems = problemsOf({ CACHE_STORE: 'redis', REDIS_URL: url })
  expect(problems).toHaveLength(1)
  expect(problems[0]).toMatch(/^REDIS_URL was "redis:\/\/.*", but .*; it may be redis:\/\//)
  expect(problems[0]).toMatch(why)
  expect(problems[0]).not.toMatch(/cret/)
})

test('CACHE_STORE=redis without REDIS_URL is refused in a line that names both', () => {
  for (const environment of [{}, { REDIS_URL: '' }]) {
    expect(problemsOf({ CACHE_STORE: 'redis', ...environment })).toEqual([
      'CACHE_STORE was "redis", but REDIS_URL, which it needs, is not set; it may be one of memory, redis, none',
    ])
  }
})

test('REDIS_URL without CACHE_STORE=redis is accepted if it is right, because platforms set it', () => {
  expect(problemsOf({ REDIS_URL: 'redis://cache' })).toEqual([])
  expect(problemsOf({ CACHE_STORE: 'redis', REDIS_URL: 'cache' })).toEqual([
    expect.stringMatching(/^REDIS_URL was "cache"; it may be redis:/),
  ])
})
