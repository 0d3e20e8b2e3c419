import { expect, test } from 'vitest'
import { newUserBody } from '../support/builders.ts'
import { sendRaw } from '../support/raw-http.ts'
import { shareTestApp } from '../support/shared-app.ts'

const app = shareTestApp()

test('no method can be put in the place of another by a form', async () => {
  const { http } = app
  const { body: user, headers } = await http.post('/users').send(newUserBody()).expect(201)
  const path = headers.location ?? ''
  await http.post(`${path}?_method=DELETE`).set('X-HTTP-Method-Override', 'DELETE').expect(405)
  await http.post(path).set('X-HTTP-Method', 'PUT').send(newUserBody()).expect(405)
  await http.get(path).set('X-Method-Override', 'DELETE').expect(200)
  expect((await http.get(path)).body).toEqual(user)
})

test('no answer sets a cookie, or can be framed, sniffed or stored by a shared cache', async () => {
  const { http } = app
  const user = newUserBody({ name: '<script>alert(1)</script>', email: 'script@example.com' })
  for (const { headers, text } of [
    await http.get('/'),
    await http.get('/docs').set('Accept', 'application/json'),
    await http.post('/users').send(user),
    await http.get('/users'),
    await http.get('/users/<script>'),
    await http.get('/users?<script>=1'),
    await http.delete('/users/999'),
  ]) {
    expect(headers).not.toHaveProperty('set-cookie')
    expect(headers['x-content-type-options']).toBe('nosniff')
    expect(headers['content-security-policy']).toBe("default-src 'none'; frame-ancestors 'none'")
    expect(headers['cache-control']).toMatch(/^(?:private, no-cache|no-store)$/)
    if (text.includes('<script>')) expect(headers['content-type']).toMatch(/^application\/json;/)
  }
})

test.each([
  ['/', "script-src 'self'; style-src 'self'; img-src 'self'"],
  ['/docs', "script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"],
])('%s takes scripts from %s only, and cannot be framed or send forms', async (path, own) => {
  const { headers } = await app.http.get(path).set('Accept', 'text/html').expect(200)
  expect(headers).not.toHaveProperty('set-cookie')
  expect(headers).toMatchObject({
    'x-content-type-options': 'nosniff',
    'cache-control': 'private, no-cache',
    'content-security-policy': `default-src 'none'; ${own}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  })
})

test.each([
  [200, ["a'onload='alert(1)", "a'$(id)'", 'a%3Cscript%3E', 'a&lt;b', 'a;b', 'a=b']],
  [400, ['<script>', 'a"b', 'a b', 'a/b', 'a`b']],
])('no Host can put anything into the page of GET /, which is %i', async (status, hosts) => {
  for (const host of hosts) {
    const lines = ['GET / HTTP/1.1', `Host: ${host}`, 'Accept: text/html', 'Connection: close']
    const [answer] = await sendRaw(app.port, `${lines.join('\r\n')}\r\n\r\n`).ended
    expect([host, answer?.status]).toEqual([host, status])
    if (status === 200) expect(answer?.body).not.toContain(host)
  }
})
