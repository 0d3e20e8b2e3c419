import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { expect, test } from 'vitest'
import { newUserBody } from '../../support/builders.ts'
import { openManagedApp } from '../../support/management-requests.ts'

test('GET / and its files hold no data, and nothing is inline', async () => {
  const { ops, http } = await openManagedApp({
    limits: {
      throttle: [{ name: 'few reads', limit: 3, period: '1 hour' }],
      bans: [{ name: 'probing', path: '/wp-*', maxretry: 3, findtime: 60, bantime: 60 }],
    },
  })
  await http
    .post('/users')
    .send(newUserBody({ email: 'ann@example.com' }))
    .expect(201)
  const ban = { rule: 'probing', client: '203.0.113.77' }
  await ops.post('/bans').send({ ban }).expect(201)
  const { headers, text } = await ops.get('/').set('Accept', 'text/html').expect(200)
  expect(headers['content-security-policy']).toBe(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
      "require-trusted-types-for 'script'; trusted-types 'none'",
  )
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|<script[^>]*>[^<]/i)
  const paths = Array.from(text.matchAll(/(?:src|href)="(assets\/[^"]+)"/g), ([, path]) => path)
  expect(paths.length).toBeGreaterThan(10)
  const sources = [text]
  for (const path of paths) {
    const answer = await ops.get(`/${path}`).expect(200)
    expect(answer.headers['cache-control']).toBe('public, max-age=31536000, immutable')
    sources.push(answer.text ?? String(answer.body))
  }
  for (const source of sources) {
    expect(source).not.toMatch(/203\.0\.113\.77|ann@example\.com|probing|few reads/)
  }
})

test('the licence of uPlot is beside its files', async () => {
  const { ops } = await openManagedApp()
  const { text } = await ops.get('/').expect(200)
  const folder = /assets\/[0-9a-f]{16}/.exec(text)?.[0]
  const licence = await ops.get(`/${folder}/LICENSE`).expect(200)
  const file = createRequire(import.meta.url).resolve('uplot/package.json')
  expect(licence.text).toBe(readFileSync(file.replace('package.json', 'LICENSE'), 'utf8'))
})
