import { expect, test } from 'vitest'
import { maskCredentials } from '../../src/config/url-parts.ts'

/** A text, and what is shown of it: in any setting, and in one that may hold a password if that is less. */
test.each<[text: string, masked: string, inDatabaseUrl?: string]>([
  ['postgres://user:s3cret@host/db', 'postgres://***@host/db'],
  ['postgres://user:s3cret@host:5432,other:5433/db', 'postgres://***@host:5432,other:5433/db'],
  ['postgres://user:s3:cr#et@host/db', 'postgres://***@host/db'],
  ['redis://:s3cret@one:1,two:2/0', 'redis://***@one:1,two:2/0'],
  // Another part of it could be the password.
  ['postgres://user:s3@cr/et@host/db', 'postgres://***'],
  ['postgres://user:s3cret%@host/db', 'postgres://***'],
  ['https://a.example, https://user:s3cret@host', 'https://***'],
  ['https://user:s3cret@host,', 'https://***@host,'],
  ['a.example, https://user:s3cret@host', '***'],
  ['psql postgres://user:s3cret@host', '***'],
  ['//user:s3cret@host/db', '***'],
  // The @ is missing or encoded.
  ['postgres://user:s3cret', 'postgres://***'],
  ['postgres://user:s3cret%40host/db', 'postgres://***'],
  ['redis://user%3As3cret%40host/0', 'redis://***'],
  ['postgres://host,user:s3cret', 'postgres://***'],
  ['postgres:user:s3cret%40host/db', 'postgres:user:s3cret%40host/db', 'postgres:***'],
  ['postgres//user:s3cret', '***'],
  ['http://user:s3cret%40host', 'http://***'],
  ['file://user:s3@cret@host/db', 'file://***'],
  // The slashes are missing.
  ['postgres:user:s3cret//x@host', 'postgres:***'],
  ['user:s3cret@host/db', 'user:s3cret@host/db', 'user:***'],
  // The password is a parameter, and may have a & in it.
  ['postgres://host/db?password=s3cret&ssl=true', 'postgres://host/db?password=***'],
  [
    'postgres://u:p@host/db?sslmode=require&password=s3&cr=et',
    'postgres://***@host/db?sslmode=require&password=***',
  ],
  ['postgres://host/db?pass%77ord=s3cret', 'postgres://host/db?pass%77ord=***'],
  ['postgres://host/db?p%61ssword=s3&token=x', 'postgres://host/db?p%61ssword=***'],
  ['postgres://host/db?password%3Ds3cret', 'postgres://host/db?password%3D***'],
  ['postgres://host/db?sslpassword=s3cret', 'postgres://host/db?sslpassword=***'],
  ['postgres://ann:pw@host/db?password=s3@cr&port=1', 'postgres://***'],
  ['host=db password = s3 cret', 'host=db password =***', '***'],
  // What stands before it is misspelt.
  ['postgres://h/d?sslmode=a?password=s3cret', 'postgres://h/d?sslmode=a?password=***'],
  ['postgres://h/d?sslmode=a;pwd=s3cret', 'postgres://h/d?sslmode=a;pwd=***'],
  ['postgres://h/nope&password=s3cret', 'postgres://h/nope&password=***'],
  ['postgres://h/d?user=root%20password=s3cret', 'postgres://h/d?user=root%20password=***'],
  ['postgres://h?options=-c%20x%3Dpassword=s3', 'postgres://h?options=-c%20x%3Dpassword=***'],
  ['redis://h:6379/0;PASSWORD=s3cret', 'redis://h:6379/0;PASSWORD=***'],
  ['redis://h/token=s3cret', 'redis://h/token=***'],
  ['./x,api_key=s3cret', './x,api_key=***', '***'],
  // Nothing is secret.
  [
    'postgres://host:5432,[::1]:5433/db?sslmode=require',
    'postgres://host:5432,[::1]:5433/db?sslmode=require',
  ],
  ['postgres:///db?host=/var/run/postgresql', 'postgres:///db?host=/var/run/postgresql'],
  ['https://a.example, http://b:80/', 'https://a.example, http://b:80/'],
  ['users.example:3000,other:80', 'users.example:3000,other:80', 'users.example:***'],
  ['2001:db8::/129', '2001:db8::/129', '***'],
  ['file:///data/ann@home.db', 'file:///data/ann@home.db', 'file://***'],
  ['file:./data/ann@home.db', 'file:./data/ann@home.db', 'file:***'],
  ['C:\\users.db', 'C:\\users.db'],
  ['data//users.db', 'data//users.db'],
  ['cache.example:6379', 'cache.example:6379'],
  [':memory:', ':memory:'],
  ['', ''],
])('maskCredentials(%j) is %j', (text, masked, inDatabaseUrl = masked) => {
  expect([maskCredentials(text), maskCredentials(text, true)]).toEqual([masked, inDatabaseUrl])
  expect(maskCredentials(masked)).toBe(masked)
})
