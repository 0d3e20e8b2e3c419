import { expect, test } from 'vitest'
import { maskCredentials } from '../../src/config/url-parts.ts'

test.each([
  ['postgres://user:s3cret@host/db', 'postgres://***@host/db'],
  ['postgres://user:s3cret@host:5432,other:5433/db', 'postgres://***@host:5432,other:5433/db'],
  ['postgres://user:s3:cr#et@host/db', 'postgres://***@host/db'],
  // Another part of it could be the password.
  ['postgres://user:s3@cr/et@host/db', 'postgres://***'],
  ['postgres://user:s3cret%@host/db', 'postgres://***'],
  ['https://a.example, https://user:s3cret@host', 'https://***'],
  ['a.example, https://user:s3cret@host', '***'],
  // The @ is missing or encoded.
  ['postgres://user:s3cret', 'postgres://***'],
  ['postgres://user:s3cret%40host/db', 'postgres://***'],
  ['postgres://host,user:s3cret', 'postgres://***'],
  ['postgres:user:s3cret%40host/db', 'postgres:***'],
  ['postgres//user:s3cret', '***'],
  ['http://user:s3cret%40host', 'http://***'],
  ['file://user:s3@cret@host/db', 'file://***@host/db'],
  // The slashes are missing.
  ['postgres:user:s3cret@host/db', 'postgres:***'],
  ['postgres:user:s3cret//x@host', 'postgres:***'],
  // The password is a parameter, and may have a & in it.
  ['postgres://host/db?password=s3cret&ssl=true', 'postgres://host/db?password=***'],
  [
    'postgres://host/db?sslmode=require&password=s3&cr=et',
    'postgres://host/db?sslmode=require&password=***',
  ],
  ['postgres://host/db?pass%77ord=s3cret', 'postgres://host/db?pass%77ord=***'],
  ['postgres://host/db?p%61ssword=s3cret', 'postgres://host/db?p%61ssword=***'],
  ['postgres://host/db?sslpassword=s3cret', 'postgres://host/db?sslpassword=***'],
  ['postgres://ann:pw@host/db?password=s3@cr&port=1', 'postgres://***'],
  ['host=db user=ann password=s3 cret', 'host=db user=ann password=***'],
  // Nothing is secret.
  [
    'postgres://host:5432,[::1]:5433/db?sslmode=require',
    'postgres://host:5432,[::1]:5433/db?sslmode=require',
  ],
  ['postgres:///db?host=/var/run/postgresql', 'postgres:///db?host=/var/run/postgresql'],
  ['https://a.example, http://b:80/', 'https://a.example, http://b:80/'],
  ['users.example:3000,other:80', 'users.example:3000,other:80'],
  ['file:///data/ann@home.db', 'file:///data/ann@home.db'],
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
