import { expect, test } from 'vitest'
import { maskCredentials } from '../../src/config/url-parts.ts'

test.each([
  ['postgres://user:s3cret@host/db', 'postgres://***'],
  ['postgres://user:s3@cr/et@host/db', 'postgres://***'],
  ['a.example, https://user:s3cret@host', '***'],
  ['psql postgres://user:s3cret@host', '***'],
  ['//user:s3cret@host/db', '***'],
  ['user:s3cret@host/db', 'user:***'],
  // The @ is missing or encoded.
  ['postgres://user:s3cret', 'postgres://***'],
  ['postgres://user:s3cret%40host/db', 'postgres://***'],
  ['postgres://host,user:s3cret', 'postgres://***'],
  ['postgres//user:s3cret', '***'],
  // The slashes are missing.
  ['postgres:user:s3cret//x@host', 'postgres:***'],
  // The password is a parameter.
  ['postgres://host/db?password=s3cret&ssl=true', 'postgres://***'],
  ['postgres://host/db?password%3Ds3cret', 'postgres://***'],
  ['host=db user=ann password=s3 cret', '***'],
  // Nothing is secret.
  ['postgres://host:5432,[::1]:5433/db?sslmode', 'postgres://host:5432,[::1]:5433/db?sslmode'],
  ['https://a.example, http://b:80/', 'https://a.example, http://b:80/'],
  ['users.example:3000,other:80', 'users.example:3000,other:80'],
  ['2001:db8::/129', '2001:db8::/129'],
  ['C:\\users.db', 'C:\\users.db'],
])('maskCredentials(%j) is %j', (text, masked) => {
  expect(maskCredentials(text)).toBe(masked)
})
