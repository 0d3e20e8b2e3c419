import { expect, test } from 'vitest'
import { skippedOnNginx } from '../support/nginx-settings.ts'
import { forgetPostgresVariables, skippedOnPostgres } from '../support/postgres-settings.ts'
import { skippedOnPrometheus } from '../support/prometheus-settings.ts'
import { skippedOnRedis } from '../support/redis-settings.ts'

const required = (process.env.REQUIRE_ENGINES ?? '').split(',')

test('no tests on a program that REQUIRE_ENGINES names are skipped', () => {
  expect(required.includes('postgres') ? skippedOnPostgres() : undefined).toBeUndefined()
  expect(required.includes('redis') ? skippedOnRedis() : undefined).toBeUndefined()
  expect(required.includes('prometheus') ? skippedOnPrometheus() : undefined).toBeUndefined()
  expect(required.includes('nginx') ? skippedOnNginx() : undefined).toBeUndefined()
})

test('forgetPostgresVariables removes what leads libpq to a server, and nothing else', () => {
  const environment = { PATH: '/bin', PGHOST: 'db', PGSSLMODE: 'require', TEST_POSTGRES_URL: 'x' }
  forgetPostgresVariables(environment)
  expect(environment).toEqual({ PATH: '/bin', TEST_POSTGRES_URL: 'x' })
})

test('variables of libpq do not reach the tests', () => {
  expect(Object.keys(process.env).filter(name => name.startsWith('PG'))).toEqual([])
})
