import { expect, test } from 'vitest'
import { maskCredentials } from '../../src/config/mask-credentials.ts'

test.each([
  ['postgres://user:s3cret@host/db', 'postgres://***@host/db'],
  ['postgres://user:s3cret@host:5432,other:5433/db', 'postgres://***@host:5432,other:5433/db'],
  ['postgres://user:s3@cr/et@host/db', 'postgres://***@host/db'],
  ['postgres://user:s3:cr#et@host/db', 'postgres://***@host/db'],
  // The @ is missing or encoded.
  ['postgres://user:s3cret', 'postgres://***'],
  ['postgres://user:s3cret%40host/db', 'postgres://***'],
  ['postgres://host,user:s3cret', 'postgres://***'],
  // The slashes are missing.
  ['postgres:user:s3cret@host/db', 'postgres:***@host/db'],
  ['postgres:user:s3cret//x@host', 'postgres:***@host'],
  // The password is a parameter.
  ['postgres://host/db?password=s3cret&ssl=true', 'postgres://host/db?password=***&***'],
  [
    'postgres://host/db?password=s3cret&sslmode=require',
    'postgres://host/db?password=***&sslmode=require',
  ],
  ['postgres://host/db?pass%77ord=s3cret', 'postgres://host/db?pass%77ord=***'],
  ['postgres://host/db?sslpassword=s3cret', 'postgres://host/db?sslpassword=***'],
  ['postgres://host/db?password=s3&cr=et', 'postgres://host/db?password=***&***'],
  ['postgres://host/db?password=x&s3cret%=', 'postgres://host/db?password=***&***'],
  ['postgres://host/db?password=s3@cret%=', 'postgres://***@***'],
  ['postgres://ann:pw@host/db?password=s3@cr&port=1', 'postgres://***@***&port=1'],
  ['host=db user=ann password=s3 cret', 'host=db user=ann password=***'],
  // Nothing is secret.
  [
    'postgres://host:5432,[::1]:5433/db?sslmode=require',
    'postgres://host:5432,[::1]:5433/db?sslmode=require',
  ],
  ['postgres:///db?host=/var/run/postgresql', 'postgres:///db?host=/var/run/postgresql'],
  ['file:./data/ann@home.db', 'file:./data/ann@home.db'],
  ['C:\\ann:x@home\\users.db', 'C:\\ann:x@home\\users.db'],
  [':memory:', ':memory:'],
])('maskCredentials(%j) is %j', (text, masked) => {
  expect(maskCredentials(text)).toBe(masked)
})

test('maskCredentials cuts a long text', () => {
  expect(maskCredentials('x'.repeat(201))).toBe(`${'x'.repeat(200)}…`)
  expect(maskCredentials(`postgres://a:${'s3cret'.repeat(1000)}@host`)).toBe('postgres://***@host')
})
