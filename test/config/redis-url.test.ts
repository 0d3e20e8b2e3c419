import { expect, test } from 'vitest'
import type { RedisLocation } from '../../src/config/redis-location.ts'
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
  ['redis://[::1]:7000', nodes(['::1', 7000])],
  [
    'rediss://ann:secret@one:1,two,[::1]:3/0',
    { ...nodes(['one', 1], ['two', 6379], ['::1', 3]), ...ANN, isEncrypted: true },
  ],
  [
    'redis://:secret@one:1,redis://:secret@two:2',
    { ...nodes(['one', 1], ['two', 2]), password: 'secret' },
  ],
])('REDIS_URL %s is understood', (url, different) => {
  const { redis } = loadConfig({ CACHE_STORE: 'redis', REDIS_URL: url }, NO_DOTENV)
  expect(redis).toEqual({ ...PLAIN, ...different, url })
})

test.each<[string, RegExp]>([
  ['redis://', /a host in it is not HOST/],
  ['redis://cache:redis', /a host in it is not HOST/],
  ['redis://::1', /a host in it is not HOST/],
  ['redis://[cache]', /the text in brackets in it is not an IPv6 address/],
  ['redis://cache:0', /a port in it is not 1 to 65535/],
  ['redis://cache:65536', /a port in it is not 1 to 65535/],
  ['redis://cache/first', /what follows its host is not the number of a database/],
  ['redis://cache/1?ssl_cert_reqs=none', /it may have no parameters/],
  ['redis://:se#cret@cache', /it may have no parameters: a \? or # in its password/],
  ['redis://:se cret@cache', /a blank in it must be written as %20/],
  ['redis://:se/cret@cache', /an @ or \/ in its user or password must be written as/],
  ['redis://:se,cret@cache', /a comma in its password must be written as %2C/],
  ['redis://:100%@cache', /write % itself as %25/],
  ['redis://one/1,two', /a Redis Cluster has no database but 0/],
  ['redis://one,rediss://two', /it mixes redis:\/\/ and rediss:\/\//],
  ['redis://:a@one,redis://:b@two', /the nodes of a Cluster need the same user and password/],
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

test('REDIS_URL with a list of nodes shows no password in a refusal', () => {
  const url = 'redis://ann:s3cret@one:1,redis://ann:s3cret@two:x'
  expect(problemsOf({ REDIS_URL: url })).toEqual([
    expect.stringMatching(/^REDIS_URL was "redis:\/\/\*\*\*@two:x", but a host in it/),
  ])
})
