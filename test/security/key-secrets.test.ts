import { expect, test } from 'vitest'
import { hashApiKey } from '../../src/access/api-key.ts'
import { addKey, unknownKey, withKeyStore } from '../support/api-keys.ts'
import { newUserBody } from '../support/builders.ts'
import { openTestApp } from '../support/open-test-app.ts'
import { sendRaw } from '../support/raw-http.ts'
import { storedBytes } from '../support/sql.ts'
import { until } from '../support/until.ts'

/** Texts that would give a key away: each run of 12 of its characters after the prefix. */
function partsOf(key: string): readonly string[] {
  const secret = key.slice('urk_'.length)
  return Array.from({ length: secret.length - 11 }, (_, at) => secret.slice(at, at + 12))
}

/** Ways to send a key, the right one first and then wrong ones. */
function waysToSend(key: string): readonly string[] {
  const body = JSON.stringify(newUserBody({ password: 'correct horse' }))
  const json = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n`
  const authorized = `Authorization: Bearer ${key}\r\n`
  return [
    `GET /users HTTP/1.1\r\n${authorized}`,
    `POST /users HTTP/1.1\r\n${authorized}${json}\r\n${body}`,
    `GET /users HTTP/1.1\r\n${authorized}${authorized}`,
    `GET /users HTTP/1.1\r\nAuthorization: Basic ${key}\r\n`,
    `GET /users HTTP/1.1\r\nAuthorization: Bearer ${key}x\r\n`,
    `GET /users HTTP/1.1\r\nX-Api-Key: ${key}\r\nCookie: key=${key}\r\n`,
    `GET /users?access_token=${key} HTTP/1.1\r\n${authorized}`,
    `GET /${key} HTTP/1.1\r\n`,
    `OPTIONS /users HTTP/1.1\r\nOrigin: http://x\r\nAccess-Control-Request-Method: ${key}\r\n`,
    `GET /users HTTP/1.1\r\nAuthorization: Bearer ${key}\x01\r\n`,
    `GET /users HTTP/1.1\r\nAuthorization: Bearer ${key}${' '.repeat(17_000)}x\r\n`,
  ]
}

test('no key is in the log, in an answer or in the database, however it is sent', async () => {
  const limits = {
    throttle: [{ limit: 1000, period: '1 hour', by: 'key' }],
    track: [{ name: 'by header', by: 'header:authorization', limit: 1, period: '1 hour' }],
    bans: [{ maxretry: 1, findtime: 60, bantime: 60, by: 'header:x-none' }],
  }
  const app = await openTestApp({
    keys: [{ name: 'valid' }, { name: 'expired', expiresAt: 1 }],
    limits,
  })
  const [valid = '', expired = ''] = app.bearers.map(bearer => bearer.slice('Bearer '.length))
  const revoked = await addKey(app.databaseUrl, { name: 'revoked' })
  const status = async () =>
    (await app.http.get('/users').set('Authorization', `Bearer ${revoked}`)).status
  await until(async () => (await status()) === 200)
  await withKeyStore(app.databaseUrl, store => store.revoke('revoked'))
  await until(async () => (await status()) === 401)

  const keys = [valid, expired, revoked, unknownKey()]
  let answers = ''
  for (const key of keys) {
    for (const head of waysToSend(key)) {
      const [first = '', ...rest] = head.split('\r\n')
      const bytes = [first, 'Host: localhost', 'Connection: close', ...rest].join('\r\n')
      const { ended } = sendRaw(app.port, `${bytes}${head.includes('\r\n\r\n') ? '' : '\r\n'}`)
      answers += JSON.stringify(await ended)
    }
  }
  const statuses = [...answers.matchAll(/"status":(\d+)/g)].map(([, status]) => Number(status))
  expect(statuses).toEqual(expect.arrayContaining([200, 201, 204, 400, 401, 431]))
  await app.stop()
  const database = (await storedBytes(app.databaseUrl)).toString('latin1')
  expect(database).toContain('valid')
  const places = { log: JSON.stringify(app.logLines), answers, database }
  for (const [place, text] of Object.entries(places)) {
    for (const key of keys) {
      expect([place, partsOf(key).filter(part => text.includes(part))]).toEqual([place, []])
    }
  }
  for (const key of keys) {
    for (const encoding of ['hex', 'base64'] as const) {
      expect(places.log + answers).not.toContain(hashApiKey(key).toString(encoding))
    }
  }
})
